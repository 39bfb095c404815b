/* Rows of plain commits, as `storage.sqlite.appending` makes them where memory has all that they refer to. */
#include "native.h"

const char native_rows_doc[] =
    "rows(commits, sessions, branches, entities, heads, kinds): a list of cells, a commit beside a fact for each fact "
    "of the pairs of a commit and its facts, the map of heads after them, and the bytes of their bodies; None if one of "
    "them is not plain, or if one of the maps lacks what it refers to.";

#define COMMIT_CELLS 11
#define FACT_CELLS 9
#define ENTITY_BITS 40
#define INDEX_BITS 20

/* The maps that numbers are looked up in, all borrowed, and what is made of a batch, all owned. */
typedef struct {
    PyObject *sessions, *branches, *entities, *heads, *kinds;
    PyObject *cells, *written;
    Py_ssize_t at;
    long long bytes;
} Rows;

static void put(Rows *rows, PyObject *cell) { PyList_SET_ITEM(rows->cells, rows->at++, Py_NewRef(cell)); }

/* Takes the reference along; 0 if there is none. */
static int put_new(Rows *rows, PyObject *cell)
{
    if (cell == NULL) return 0;
    PyList_SET_ITEM(rows->cells, rows->at++, cell);
    return 1;
}

static void put_note(Rows *rows, PyObject *commit)
{
    PyObject *note = GET(commit, f_Commit_note), *digest = GET(commit, f_Commit_note_digest);
    if (note != Py_None) rows->bytes += PyBytes_GET_SIZE(note);
    put(rows, note);
    put(rows, GET(commit, f_Commit_note_salt));
    /* only where the note is gone */
    put(rows, note != Py_None || PyObject_RichCompareBool(digest, o_NO_BODY, Py_EQ) ? Py_None : digest);
}

static void put_commit(Rows *rows, PyObject *commit, PyObject *session, PyObject *branch)
{
    put(rows, GET(commit, f_Commit_version));
    put(rows, session);
    put(rows, GET(GET(commit, f_Commit_identity), f_LocalIdentity_local));
    put(rows, branch);
    put(rows, GET(commit, f_Commit_time));
    put(rows, GET(commit, f_Commit_hash));
    put(rows, GET(commit, f_Commit_request));
    put(rows, Py_None);
    put_note(rows, commit);
}

static void put_nothing(Rows *rows, int count)
{
    while (count--) put(rows, Py_None);
}

/* The place and the hash of the last fact of an entity, borrowed. */
static PyObject *last_of(Rows *rows, PyObject *key)
{
    PyObject *last = PyDict_GetItemWithError(rows->written, key);
    if (last == NULL && !PyErr_Occurred()) last = PyDict_GetItemWithError(rows->heads, key);
    return last;
}

/* 0, with or without an error, if it cannot be made. */
static int put_fact(Rows *rows, PyObject *fact, PyObject *branch)
{
    if (!IS(fact, Fact)) return 0;
    PyObject *entity = PyDict_GetItemWithError(rows->entities, GET(fact, f_Fact_id));
    PyObject *kind = PyDict_GetItemWithError(rows->kinds, GET(fact, f_Fact_kind)), *body = GET(fact, f_Fact_body);
    if (entity == NULL || kind == NULL) return 0;
    PyObject *key = PyLong_FromLongLong(PyLong_AsLongLong(branch) << ENTITY_BITS | PyLong_AsLongLong(entity));
    PyObject *last = key == NULL ? NULL : last_of(rows, key), *after = NULL;
    long long number = PyLong_AsLongLong(GET(fact, f_Fact_version)) << INDEX_BITS | PyLong_AsLongLong(GET(fact, f_Fact_index));
    int found = last != NULL && PyObject_RichCompareBool(PyTuple_GET_ITEM(last, 1), GET(fact, f_Fact_parent), Py_EQ) == 1;
    if (found && put_new(rows, PyLong_FromLongLong(number))) {
        after = PyTuple_Pack(2, PyList_GET_ITEM(rows->cells, rows->at - 1), GET(fact, f_Fact_hash));
        put(rows, entity);
        put(rows, branch);
        put(rows, kind);
        put(rows, PyTuple_GET_ITEM(last, 0));
        put(rows, GET(fact, f_Fact_hash));
        put(rows, GET(fact, f_Fact_salt));
        put(rows, body);
        put(rows, body == Py_None && !same_text(GET(fact, f_Fact_kind), o_delete) ? GET(fact, f_Fact_digest) : Py_None);
        if (body != Py_None) rows->bytes += PyBytes_GET_SIZE(body);
    }
    found = after != NULL && PyDict_SetItem(rows->written, key, after) == 0;
    Py_XDECREF(key);
    Py_XDECREF(after);
    return found;
}

static int is_plain(PyObject *commit, PyObject *facts)
{
    return IS(commit, Commit) && PyTuple_Check(facts) && PyTuple_GET_SIZE(facts) && IS(GET(commit, f_Commit_identity), LocalIdentity) &&
           GET(commit, f_Commit_branch) != Py_None && PyObject_RichCompareBool(GET(commit, f_Commit_arguments), o_NO_ARGUMENTS, Py_EQ) == 1;
}

static int put_all(Rows *rows, PyObject *commit, PyObject *facts)
{
    if (!is_plain(commit, facts)) return 0;
    PyObject *identity = GET(commit, f_Commit_identity);
    PyObject *name = PyTuple_Pack(2, GET(identity, f_LocalIdentity_principal), GET(identity, f_LocalIdentity_session));
    PyObject *session = name == NULL ? NULL : PyDict_GetItemWithError(rows->sessions, name);
    PyObject *branch = session == NULL ? NULL : PyDict_GetItemWithError(rows->branches, GET(commit, f_Commit_branch));
    int found = branch != NULL;
    for (Py_ssize_t index = 0; found && index < PyTuple_GET_SIZE(facts); index++) {
        if (index == 0)
            put_commit(rows, commit, session, branch);
        else
            put_nothing(rows, COMMIT_CELLS);
        found = put_fact(rows, PyTuple_GET_ITEM(facts, index), branch);
    }
    Py_XDECREF(name);
    return found;
}

/* The facts of all of them; -1 if what was given is something else. */
static Py_ssize_t count_facts(PyObject *pairs)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(pairs); index++) {
        PyObject *pair = PyList_GET_ITEM(pairs, index);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyTuple_Check(PyTuple_GET_ITEM(pair, 1))) return -1;
        count += PyTuple_GET_SIZE(PyTuple_GET_ITEM(pair, 1));
    }
    return count;
}

static PyObject *made(PyObject *pairs, Rows *rows)
{
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(pairs); index++) {
        PyObject *pair = PyList_GET_ITEM(pairs, index);
        if (!put_all(rows, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1))) {
            if (PyErr_Occurred()) return NULL;
            Py_RETURN_NONE;
        }
    }
    assert(rows->at == PyList_GET_SIZE(rows->cells));
    return Py_BuildValue("OOL", rows->cells, rows->written, rows->bytes);
}

PyObject *native_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t facts = count == 6 && PyList_Check(args[0]) ? count_facts(args[0]) : -1;
    for (Py_ssize_t index = 1; facts >= 0 && index < count; index++)
        if (!PyDict_Check(args[index])) facts = -1;
    if (facts < 0) {
        PyErr_SetString(PyExc_TypeError, native_rows_doc);
        return NULL;
    }
    Rows rows = {.sessions = args[1], .branches = args[2], .entities = args[3], .heads = args[4], .kinds = args[5]};
    PyObject *found = NULL;
    rows.cells = PyList_New(facts * (COMMIT_CELLS + FACT_CELLS));
    rows.written = PyDict_New();
    if (rows.cells != NULL && rows.written != NULL) found = made(args[0], &rows);
    Py_XDECREF(rows.cells);
    Py_XDECREF(rows.written);
    return found;
}
