/* Decides fast-path commits, as `stemmadb.protocol.model.commit.admission` does: facts, records and heads of a batch in one go. */
#include "native.h"

const char native_decide_doc[] =
    "decide(batch, base, now, salts, limits): all of them accepted, in order; None if one of them is not plain.";

/* What is the same for all of a batch. Everything here is borrowed but what `end_base` releases. */
typedef struct {
    PyObject *heads, *highest, *roles, *space, *limits, *salts;
    PyObject *hash, *version_number, *time_number; /* of the last commit */
    PyObject *keep;                                /* scan_facts_max */
    long long version, time, keep_count;
} Base;

/* Of one step: what it makes. All owned. */
typedef struct {
    PyObject *key, *value, *size, *salt, *digest, *hash;
} Made;

enum { FAILED = -1, NOT_PLAIN = 0, FINE = 1 };

static long long number(PyObject *object) { return PyLong_AsLongLong(object); }

static int is_writer(PyObject *role)
{
    return role != NULL && PyUnicode_Check(role) &&
           (PyUnicode_CompareWithASCIIString(role, "write") == 0 || PyUnicode_CompareWithASCIIString(role, "own") == 0);
}

static int is_kind(PyObject *kind, const char *name) { return PyUnicode_CompareWithASCIIString(kind, name) == 0; }

static PyObject *key_of(PyObject *id) { return PyTuple_Pack(2, o_MAIN, id); }

/* Whether it is a plain commit, as far as can be told without the heads. */
static int is_plain(PyObject *proposal, const Base *base)
{
    if (!IS(proposal, Proposal) || !same_text(GET(proposal, f_Proposal_branch), o_MAIN)) return 0;
    if (GET(proposal, f_Proposal_details) != Py_None || GET(proposal, f_Proposal_refusal) != Py_None) return 0;
    if (GET(proposal, f_Proposal_planned) != Py_None || GET(proposal, f_Proposal_merged) != Py_None) return 0;
    PyObject *delegated = GET(proposal, f_Proposal_delegated), *steps = GET(proposal, f_Proposal_steps);
    if (!PyTuple_Check(delegated) || PyTuple_GET_SIZE(delegated) || !PyTuple_Check(steps)) return 0;
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(steps); index++) {
        PyObject *step = PyTuple_GET_ITEM(steps, index);
        if (!IS(step, Step) || same_text(GET(step, f_Step_id), base->space)) return 0;
    }
    return IS(GET(proposal, f_Proposal_identity), LocalIdentity);
}

/* Whether it comes after all of its session, from one who may write (COMMIT-5, ACL-1). */
static int may_be_made(PyObject *identity, PyObject *session, const Base *base)
{
    PyObject *role = PyDict_GetItemWithError(base->roles, GET(identity, f_LocalIdentity_principal));
    PyObject *highest = role == NULL ? NULL : PyDict_GetItemWithError(base->highest, session);
    if (PyErr_Occurred()) return FAILED;
    if (highest == NULL || !is_writer(role)) return NOT_PLAIN;
    return number(GET(identity, f_LocalIdentity_local)) > number(highest);
}

/* The head under a key, borrowed; it must be there. */
static PyObject *head_of(PyObject *heads, PyObject *key)
{
    PyObject *head = PyDict_GetItemWithError(heads, key);
    if (head == NULL && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
    if (head == NULL || IS(head, EntityState)) return head;
    PyErr_Format(PyExc_TypeError, "%R is no head", head);
    return NULL;
}

/* Whether nothing that was read has changed since, as the heads alone show (COMMIT-2). */
static int holds(PyObject *reads, const Base *base)
{
    if (!PyTuple_Check(reads)) return NOT_PLAIN;
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(reads); index++) {
        PyObject *read = PyTuple_GET_ITEM(reads, index);
        if (!IS(read, Read)) return NOT_PLAIN;
        PyObject *id = GET(read, f_Read_id);
        long long version = number(GET(read, f_Read_version));
        if (id == Py_None || GET(read, f_Read_branch) != Py_None || version > base->version) return NOT_PLAIN;
        if (PyTuple_GET_SIZE(GET(read, f_Read_locals))) return NOT_PLAIN;
        PyObject *key = key_of(id);
        PyObject *head = key == NULL ? NULL : head_of(base->heads, key);
        Py_XDECREF(key);
        if (head == NULL) return FAILED;
        if (number(GET(head, f_EntityState_version)) > version) return NOT_PLAIN;
    }
    return FINE;
}

/* The value that a patch leaves, and its size: `writing` applies it, and says if it does not fit. */
static int patched(PyObject *step, PyObject *head, const Base *base, PyObject **work, Made *made)
{
    if (*work == NULL) {
        *work = PyObject_CallOneArg(o_Work, GET(base->limits, f_Limits_value_bytes_max));
        if (*work == NULL) return FAILED;
    }
    PyObject *after = PyObject_CallFunctionObjArgs(o_value_after, step, head, base->limits, *work, NULL);
    if (after == NULL) {
        if (!PyErr_ExceptionMatches(o_StemmaError)) return FAILED;
        PyErr_Clear();
        return NOT_PLAIN;
    }
    made->value = Py_NewRef(PyTuple_GET_ITEM(after, 0));
    made->size = Py_NewRef(PyTuple_GET_ITEM(after, 1));
    Py_DECREF(after);
    return FINE;
}

/* The value after a step, and its size. */
static int value_after(PyObject *step, PyObject *head, const Base *base, PyObject **work, Made *made)
{
    PyObject *kind = GET(step, f_Step_kind);
    if (is_kind(kind, "set")) {
        made->value = Py_NewRef(GET(step, f_Step_payload));
        made->size = Py_NewRef(GET(step, f_Step_size));
        return FINE;
    }
    if (is_kind(kind, "patch")) return patched(step, head, base, work, made);
    if (!is_kind(kind, "delete") || IS(GET(head, f_EntityState_value), Missing)) return NOT_PLAIN;
    made->value = Py_NewRef(o_ABSENT);
    made->size = PyLong_FromLong(0);
    return made->size == NULL ? FAILED : FINE;
}

static PyObject *next_salt(PyObject *salts)
{
    PyObject *salt = PyIter_Next(salts);
    if (salt == NULL && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "there are no salts any more");
    return salt;
}

/* BLAKE3(msgpack [tag, kind, id, parent, digest]) (FACT-2). */
static PyObject *hash_fact(PyObject *step, PyObject *parent, PyObject *digest)
{
    Pack pack;
    pack_begin(&pack);
    pack_array(&pack, 5);
    pack_text(&pack, o_TAG_FACT);
    pack_text(&pack, GET(step, f_Step_kind));
    pack_text(&pack, GET(step, f_Step_id));
    pack_bytes(&pack, parent);
    pack_bytes(&pack, digest);
    return hashed(pack_end(&pack));
}

/* The salt, the digest and the hash of the fact. */
static int seal_fact(PyObject *step, PyObject *head, const Base *base, Made *made)
{
    PyObject *body = GET(step, f_Step_body);
    if (body == Py_None) {
        made->salt = Py_NewRef(Py_None);
        made->digest = Py_NewRef(o_NO_BODY);
    } else {
        made->salt = next_salt(base->salts);
        made->digest = made->salt == NULL ? NULL : hashed(joined(made->salt, body));
    }
    made->hash = made->digest == NULL ? NULL : hash_fact(step, GET(head, f_EntityState_hash), made->digest);
    return made->hash == NULL ? FAILED : FINE;
}

/* The changes of a head with a new one in front, and what was seen after; both owned. */
static int pushed(PyObject *head, PyObject *change, const Base *base, PyObject **changes, PyObject **seen_after)
{
    PyObject *before = GET(head, f_EntityState_changes), *seen = GET(head, f_EntityState_seen_after);
    PyObject *shared = IS(before, Changes) ? GET(before, f_Changes_shared) : NULL;
    long long count = shared == NULL ? 0 : number(GET(before, f_Changes_count));
    if (shared == NULL || count >= 2 * base->keep_count || count != PyList_GET_SIZE(shared)) {
        PyObject *both = PyObject_CallFunctionObjArgs(o_push, before, seen, change, base->keep, NULL);
        if (both == NULL) return FAILED;
        *changes = Py_NewRef(PyTuple_GET_ITEM(both, 0));
        *seen_after = Py_NewRef(PyTuple_GET_ITEM(both, 1));
        Py_DECREF(both);
        return FINE;
    }
    if (PyList_Append(shared, change) < 0) return FAILED;
    PyObject *more = PyLong_FromLongLong(count + 1);
    *changes = MAKE(Changes, shared, more);
    *seen_after = Py_NewRef(seen);
    Py_XDECREF(more);
    return *changes == NULL ? FAILED : FINE;
}

/* As the head before, and so much more. */
static PyObject *sum(PyObject *count, Py_ssize_t more) { return PyLong_FromLongLong(number(count) + more); }

/* The head after a step. */
static PyObject *head_after(PyObject *step, PyObject *head, const Base *base, PyObject *version, PyObject *author, const Made *made)
{
    PyObject *writes = GET(step, f_Step_writes), *body = GET(step, f_Step_body), *state = NULL;
    PyObject *changes = NULL, *seen_after = NULL, *patches = NULL, *patch_bytes = NULL;
    if (writes != Py_None && PyTuple_GET_SIZE(writes) > number(o_PATHS_MAX)) writes = o_WHOLE;
    PyObject *change = MAKE(RecordedChange, version, author, writes);
    if (change != NULL && pushed(head, change, base, &changes, &seen_after) == FINE) {
        PyObject *id = GET(step, f_Step_id);
        if (is_kind(GET(step, f_Step_kind), "patch")) {
            patches = sum(GET(head, f_EntityState_patches), 1);
            patch_bytes = sum(GET(head, f_EntityState_patch_bytes), body == Py_None ? 0 : PyBytes_GET_SIZE(body));
            state = MAKE(EntityState, id, version, made->hash, made->value, made->size, changes, seen_after, version, patches, patch_bytes);
        } else
            state = MAKE(EntityState, id, version, made->hash, made->value, made->size, changes, seen_after, version);
    }
    Py_XDECREF(change);
    Py_XDECREF(changes);
    Py_XDECREF(seen_after);
    Py_XDECREF(patches);
    Py_XDECREF(patch_bytes);
    return state;
}

static void forget(Made *made)
{
    Py_XDECREF(made->key);
    Py_XDECREF(made->value);
    Py_XDECREF(made->size);
    Py_XDECREF(made->salt);
    Py_XDECREF(made->digest);
    Py_XDECREF(made->hash);
}

/* One step: its fact into `facts`, the head after it into `written`. */
static int write_step(PyObject *step, Py_ssize_t index, const Base *base, PyObject *version, PyObject *author, PyObject **work, PyObject *facts, PyObject *written)
{
    Made made = {0};
    PyObject *fact = NULL, *state = NULL, *place = NULL, *id = GET(step, f_Step_id);
    int found = FAILED;
    made.key = key_of(id);
    PyObject *head = made.key == NULL ? NULL : PyDict_GetItemWithError(written, made.key);
    if (head == NULL && !PyErr_Occurred()) head = head_of(base->heads, made.key);
    if (head == NULL) goto end;
    found = value_after(step, head, base, work, &made);
    if (found == FINE) found = seal_fact(step, head, base, &made);
    if (found != FINE) goto end;
    place = PyLong_FromSsize_t(index);
    fact = MAKE(Fact, version, place, GET(step, f_Step_branch), id, GET(step, f_Step_kind), GET(head, f_EntityState_hash), made.digest, made.hash, made.salt, GET(step, f_Step_body));
    if (fact != NULL) state = head_after(step, head, base, version, author, &made);
    found = state != NULL && PyDict_SetItem(written, made.key, state) == 0 ? FINE : FAILED;
    if (found == FINE) PyTuple_SET_ITEM(facts, index, Py_NewRef(fact));
end:
    Py_XDECREF(place);
    Py_XDECREF(fact);
    Py_XDECREF(state);
    forget(&made);
    return found;
}

/* The facts of a commit, and the heads after it in `written`; NOT_PLAIN where a step cannot be done. */
static int write_all(PyObject *proposal, const Base *base, PyObject *version, PyObject **facts, PyObject **written)
{
    PyObject *steps = GET(proposal, f_Proposal_steps), *work = NULL;
    PyObject *author = GET(GET(proposal, f_Proposal_identity), f_LocalIdentity_principal);
    int found = FINE;
    *facts = PyTuple_New(PyTuple_GET_SIZE(steps));
    *written = PyDict_New();
    if (*facts == NULL || *written == NULL) return FAILED;
    for (Py_ssize_t index = 0; found == FINE && index < PyTuple_GET_SIZE(steps); index++) {
        PyObject *step = PyTuple_GET_ITEM(steps, index);
        found = write_step(step, index, base, version, author, &work, *facts, *written);
    }
    Py_XDECREF(work);
    return found;
}

static PyObject *hashes_of(PyObject *facts)
{
    Py_ssize_t count = PyTuple_GET_SIZE(facts);
    PyObject *hashes = PyTuple_New(count);
    for (Py_ssize_t index = 0; hashes != NULL && index < count; index++)
        PyTuple_SET_ITEM(hashes, index, Py_NewRef(GET(PyTuple_GET_ITEM(facts, index), f_Fact_hash)));
    return hashes;
}

/* Covers everything a later decision relies on (FACT-3). */
static PyObject *hash_commit(PyObject *proposal, const Base *base, PyObject *version, PyObject *time, PyObject *note_digest, PyObject *hashes)
{
    PyObject *identity = GET(proposal, f_Proposal_identity);
    Pack pack;
    pack_begin(&pack);
    pack_array(&pack, 14);
    pack_text(&pack, o_TAG_COMMIT);
    pack_text(&pack, base->space);
    pack_bytes(&pack, base->hash);
    pack_number(&pack, version);
    pack_bytes(&pack, o_NO_ARGUMENTS);
    pack_text(&pack, GET(proposal, f_Proposal_branch));
    pack_text(&pack, GET(identity, f_LocalIdentity_principal));
    pack_bytes(&pack, GET(identity, f_LocalIdentity_session));
    pack_number(&pack, GET(identity, f_LocalIdentity_local));
    pack_number(&pack, time);
    pack_bytes(&pack, GET(proposal, f_Proposal_request));
    pack_bytes(&pack, note_digest);
    pack_array(&pack, PyTuple_GET_SIZE(hashes));
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(hashes); index++)
        pack_bytes(&pack, PyTuple_GET_ITEM(hashes, index));
    pack_array(&pack, 0); /* it has a branch, so that its facts name none */
    return hashed(pack_end(&pack));
}

/* The record with its hash. Time never goes back: a clock that does repeats the last time (COMMIT-7). */
static PyObject *record(PyObject *proposal, const Base *base, PyObject *version, PyObject *time, PyObject *facts, PyObject **hash)
{
    PyObject *note = GET(proposal, f_Proposal_note), *commit = NULL;
    PyObject *salt = note == Py_None ? Py_NewRef(Py_None) : next_salt(base->salts);
    PyObject *digest = note == Py_None ? Py_NewRef(o_NO_BODY) : salt == NULL ? NULL : hashed(joined(salt, note));
    PyObject *hashes = hashes_of(facts), *none = PyTuple_New(0);
    if (digest != NULL && hashes != NULL) *hash = hash_commit(proposal, base, version, time, digest, hashes);
    commit = MAKE(Commit, version, base->hash, GET(proposal, f_Proposal_identity), time, GET(proposal, f_Proposal_request),
                  GET(proposal, f_Proposal_branch), hashes, digest, none, o_NO_ARGUMENTS, note, salt, *hash);
    Py_XDECREF(salt);
    Py_XDECREF(digest);
    Py_XDECREF(hashes);
    Py_XDECREF(none);
    return commit;
}

/* The next proposal is decided on top of this one. */
static int go_on(Base *base, PyObject *version, PyObject *hash, PyObject *session, PyObject *local, PyObject *written)
{
    if (PyDict_Update(base->heads, written) < 0) return FAILED;
    if (PyDict_SetItem(base->highest, session, local) < 0) return FAILED;
    base->version++;
    Py_SETREF(base->version_number, Py_NewRef(version));
    Py_SETREF(base->hash, Py_NewRef(hash));
    return FINE;
}

static int accept(PyObject *proposal, PyObject *session, Base *base, PyObject *accepted)
{
    PyObject *facts = NULL, *written = NULL, *hash = NULL, *commit = NULL, *one = NULL;
    PyObject *version = PyLong_FromLongLong(base->version + 1);
    int found = version == NULL ? FAILED : write_all(proposal, base, version, &facts, &written);
    if (found == FINE) {
        commit = record(proposal, base, version, base->time_number, facts, &hash);
        one = commit == NULL ? NULL : MAKE(Accepted, commit, facts, written);
        found = one == NULL || PyList_Append(accepted, one) < 0 ? FAILED : FINE;
    }
    if (found == FINE) {
        PyObject *local = GET(GET(proposal, f_Proposal_identity), f_LocalIdentity_local);
        found = go_on(base, version, hash, session, local, written);
    }
    Py_XDECREF(version);
    Py_XDECREF(facts);
    Py_XDECREF(written);
    Py_XDECREF(hash);
    Py_XDECREF(commit);
    Py_XDECREF(one);
    return found;
}

static int decide_one(PyObject *proposal, Base *base, PyObject *accepted)
{
    if (!is_plain(proposal, base)) return NOT_PLAIN;
    PyObject *identity = GET(proposal, f_Proposal_identity);
    PyObject *session = PyTuple_Pack(2, GET(identity, f_LocalIdentity_principal), GET(identity, f_LocalIdentity_session));
    if (session == NULL) return FAILED;
    int found = may_be_made(identity, session, base);
    if (found == FINE) found = holds(GET(proposal, f_Proposal_reads), base);
    if (found == FINE) found = accept(proposal, session, base, accepted);
    Py_DECREF(session);
    return found;
}

/* The access list, owned; NULL with an error if there is no head of it. */
static PyObject *roles_of(const Base *base)
{
    PyObject *key = key_of(base->space);
    PyObject *head = key == NULL ? NULL : head_of(base->heads, key);
    Py_XDECREF(key);
    return head == NULL ? NULL : Py_NewRef(GET(head, f_EntityState_value));
}

/* Whether no field of it was deleted. */
static int is_whole(PyObject *given)
{
    return GET(given, f_BatchBase_space) && GET(given, f_BatchBase_version) && GET(given, f_BatchBase_hash) &&
           GET(given, f_BatchBase_time) && GET(given, f_BatchBase_heads) && GET(given, f_BatchBase_highest);
}

/* Reads the batch base given by Python; call `end_base` whatever this returns. */
static int begin_base(Base *base, PyObject *given, PyObject *now)
{
    PyObject *time = Py_NewRef(GET(given, f_BatchBase_time));
    base->heads = Py_NewRef(GET(given, f_BatchBase_heads));
    base->highest = Py_NewRef(GET(given, f_BatchBase_highest));
    base->space = Py_NewRef(GET(given, f_BatchBase_space));
    base->hash = Py_NewRef(GET(given, f_BatchBase_hash));
    base->keep = Py_NewRef(GET(base->limits, f_Limits_scan_facts_max));
    base->version_number = Py_NewRef(GET(given, f_BatchBase_version));
    base->time_number = Py_NewRef(number(now) > number(time) ? now : time);
    Py_DECREF(time);
    base->version = number(base->version_number);
    base->keep_count = number(base->keep);
    if (PyErr_Occurred()) return FAILED;
    if (!PyDict_Check(base->heads) || !PyDict_Check(base->highest)) return NOT_PLAIN;
    base->roles = roles_of(base);
    if (base->roles == NULL) return FAILED;
    return PyDict_Check(base->roles) ? FINE : NOT_PLAIN;
}

static void update_base(PyObject *given, const Base *base)
{
    Py_XSETREF(GET(given, f_BatchBase_version), Py_NewRef(base->version_number));
    Py_XSETREF(GET(given, f_BatchBase_hash), Py_NewRef(base->hash));
    Py_XSETREF(GET(given, f_BatchBase_time), Py_NewRef(base->time_number));
}

static void end_base(Base *base)
{
    PyObject *owned[] = {base->heads, base->highest, base->roles, base->space, base->hash, base->keep, base->version_number, base->time_number};
    for (size_t index = 0; index < sizeof owned / sizeof owned[0]; index++) Py_XDECREF(owned[index]);
}

PyObject *native_decide(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !IS(args[1], BatchBase) || !is_whole(args[1]) || !PyIter_Check(args[3]) || !IS(args[4], Limits)) {
        PyErr_SetString(PyExc_TypeError, native_decide_doc);
        return NULL;
    }
    Base base = {.salts = args[3], .limits = args[4]};
    PyObject *batch = PySequence_Fast(args[0], "a batch is a sequence"), *accepted = PyList_New(0);
    int found = batch == NULL || accepted == NULL ? FAILED : begin_base(&base, args[1], args[2]);
    for (Py_ssize_t index = 0; found == FINE && index < PySequence_Fast_GET_SIZE(batch); index++)
        found = decide_one(PySequence_Fast_GET_ITEM(batch, index), &base, accepted);
    if (found == FINE && PyList_GET_SIZE(accepted)) update_base(args[1], &base);
    end_base(&base);
    Py_XDECREF(batch);
    if (found == FINE) return accepted;
    Py_XDECREF(accepted);
    if (found == NOT_PLAIN) Py_RETURN_NONE;
    return NULL;
}
