/* Reads commit messages of the fast path, as `wire.codec` and `model.proposal` do: the bytes of a message become a proposal. */
#include "cursor.h"

const char native_read_doc[] =
    "read(data, principal, session, bounds, limits): the proposal that a message of a plain commit makes; None if it "
    "is anything else, or if there is anything to say against it. `bounds` are id_bytes_max, operations_max, "
    "reads_max, value_bytes_max and depth_max.";

#define PARTS_MAX 64   /* operations, and reads */
#define LEVELS 6       /* of a value, as `body` reads it fast */
#define NONCE_BYTES 16
#define BODY_BYTES_MAX 65536 /* what is larger costs what its bytes cost, whoever reads it */

typedef struct {
    PyObject *limits;
    long long id_bytes, operations, reads, value_bytes, depth;
} Bounds;

/* A text in the message. */
typedef struct {
    const char *data;
    Py_ssize_t size;
} Text;

typedef struct {
    Text id, path;
    long long version;
} Claim;

/* All that was read so far; `steps` and `reads` are owned. */
typedef struct {
    PyObject *steps, *reads;
    Text ids[PARTS_MAX];
    Claim claims[PARTS_MAX];
    Py_ssize_t step_count, read_count;
} Content;

static int equal(Text one, Text other) { return one.size == other.size && !memcmp(one.data, other.data, (size_t)one.size); }

/* ------------------------------------------------------------ ids and paths */

static int may_stand_in_an_id(unsigned char character)
{
    return character > 0x20 && character < 0x7f && strchr("<>\"{}|\\^`", character) == NULL;
}

/* A URI with a scheme, of ASCII alone (MODEL-2). */
static int is_id(Text id, const Bounds *bounds)
{
    Py_ssize_t at = 0;
    if (id.size > bounds->id_bytes || id.size < 3) return 0;
    if (!Py_ISALPHA(id.data[0])) return 0;
    while (at < id.size && (Py_ISALNUM(id.data[at]) || strchr("+.-", id.data[at]) != NULL) && id.data[at]) at++;
    if (at + 1 >= id.size || id.data[at] != ':') return 0;
    for (at++; at < id.size; at++)
        if (!may_stand_in_an_id((unsigned char)id.data[at])) return 0;
    return 1;
}

/* A JSON Pointer of ASCII alone, and no deeper than a value can be. */
static int is_path(Text path, const Bounds *bounds)
{
    long long depth = 0;
    if (path.size && path.data[0] != '/') return 0;
    for (Py_ssize_t at = 0; at < path.size; at++) {
        if (path.data[at] & 0x80) return 0;
        if (path.data[at] == '~' && (at + 1 == path.size || (path.data[at + 1] != '0' && path.data[at + 1] != '1'))) return 0;
        depth += path.data[at] == '/';
    }
    return depth <= bounds->depth + 1;
}

/* ------------------------------------------------------------ operations */

static PyObject *no_claims(void)
{
    return PyTuple_New(0);
}

static PyObject *set_step(PyObject *id, PyObject *body, int blind, const Bounds *bounds)
{
    Cursor cursor = {(unsigned char *)PyBytes_AS_STRING(body), (unsigned char *)PyBytes_AS_STRING(body) + PyBytes_GET_SIZE(body)};
    PyObject *value = bounds->depth < LEVELS ? NULL : take_value(&cursor, LEVELS), *step = NULL;
    if (value != NULL && cursor.at == cursor.end) {
        PyObject *size = PyLong_FromSsize_t(PyBytes_GET_SIZE(body)), *claims = blind ? no_claims() : Py_NewRef(o_WHOLE);
        step = MAKE(Step, o_set, o_MAIN, id, body, value, size, Py_None, claims);
        Py_XDECREF(size);
        Py_XDECREF(claims);
    }
    Py_XDECREF(value);
    return step;
}

static PyObject *delete_step(PyObject *id, int blind)
{
    PyObject *size = PyLong_FromLong(0), *claims = blind ? no_claims() : Py_NewRef(o_WHOLE);
    PyObject *step = MAKE(Step, o_delete, o_MAIN, id, Py_None, Py_None, size, Py_None, claims);
    Py_XDECREF(size);
    Py_XDECREF(claims);
    return step;
}

/* Its footprint is found by `proposal.patch_step`, which also says what is wrong with it: then it is not ours. */
static PyObject *patch_step(PyObject *id, PyObject *body, int blind, const Bounds *bounds)
{
    PyObject *values[] = {NULL, o_MAIN, id, body, blind ? Py_True : Py_False, bounds->limits};
    PyObject *step = PyObject_Vectorcall(o_patch_step, values + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, o_BLIND_AND_LIMITS);
    if (step == NULL && PyErr_ExceptionMatches(o_StemmaError)) PyErr_Clear();
    return step;
}

/* NULL without an error where it is not plain, here and below. */
static PyObject *take_step(Cursor *cursor, Text *id, const Bounds *bounds)
{
    Text body = {NULL, 0};
    Py_ssize_t fields;
    PyObject *kind, *step = NULL, *name, *data;
    if (!take_map(cursor, &fields) || fields < 2 || !take_name(cursor, "op")) return NULL;
    kind = take_name(cursor, "set") ? o_set : take_name(cursor, "patch") ? o_patch : take_name(cursor, "delete") ? o_delete : NULL;
    if (kind == NULL || !take_name(cursor, "id") || !take_text(cursor, &id->data, &id->size) || !is_id(*id, bounds)) return NULL;
    fields -= 2;
    if (kind != o_delete) {
        if (!fields-- || !take_name(cursor, "body") || !take_bytes(cursor, &body.data, &body.size)) return NULL;
        if (body.size > bounds->value_bytes || body.size > BODY_BYTES_MAX) return NULL;
    }
    if (fields > 1 || (fields && (!take_name(cursor, "blind") || cursor->at == cursor->end || *cursor->at++ != 0xc3))) return NULL;
    name = ascii(id->data, id->size);
    if (name == NULL) return NULL;
    if (kind == o_delete)
        step = delete_step(name, (int)fields);
    else if ((data = PyBytes_FromStringAndSize(body.data, body.size)) != NULL) {
        step = kind == o_set ? set_step(name, data, (int)fields, bounds) : patch_step(name, data, (int)fields, bounds);
        Py_DECREF(data);
    }
    Py_DECREF(name);
    return step;
}

static int take_steps(Cursor *cursor, Content *content, const Bounds *bounds)
{
    Py_ssize_t count;
    if (!take_name(cursor, "operations") || !take_array(cursor, &count)) return 0;
    if (count < 1 || count > PARTS_MAX || count > bounds->operations) return 0;
    content->steps = PyTuple_New(count);
    if (content->steps == NULL) return 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *step = take_step(cursor, &content->ids[index], bounds);
        if (step == NULL) return 0;
        PyTuple_SET_ITEM(content->steps, index, step);
    }
    content->step_count = count;
    return 1;
}

/* ------------------------------------------------------------ declared reads */

static PyObject *read_of(const Claim *claim, PyObject *id)
{
    PyObject *version = PyLong_FromLongLong(claim->version), *read = NULL;
    PyObject *path = claim->path.size ? ascii(claim->path.data, claim->path.size) : NULL;
    PyObject *values[] = {NULL, version, id, path};
    if (version != NULL && (path != NULL || !claim->path.size))
        read = PyObject_Vectorcall(o_Read, values + 1, PY_VECTORCALL_ARGUMENTS_OFFSET, path == NULL ? o_OF_ID : o_OF_PATH);
    Py_XDECREF(version);
    Py_XDECREF(path);
    return read;
}

/* The id of a step if one has the same, so that the text is there once. */
static PyObject *name_of(Text id, const Content *content, const Bounds *bounds)
{
    for (Py_ssize_t index = 0; index < content->step_count; index++)
        if (equal(id, content->ids[index])) return Py_NewRef(GET(PyTuple_GET_ITEM(content->steps, index), f_Step_id));
    return is_id(id, bounds) ? ascii(id.data, id.size) : NULL;
}

static PyObject *take_read(Cursor *cursor, Claim *claim, const Content *content, const Bounds *bounds)
{
    Py_ssize_t fields;
    claim->path.size = 0;
    if (!take_map(cursor, &fields) || fields < 2 || fields > 3 || !take_name(cursor, "version")) return NULL;
    if (!take_number(cursor, &claim->version) || !take_name(cursor, "id")) return NULL;
    if (!take_text(cursor, &claim->id.data, &claim->id.size)) return NULL;
    if (fields == 3) {
        if (!take_name(cursor, "path") || !take_text(cursor, &claim->path.data, &claim->path.size)) return NULL;
        if (!claim->path.size || !is_path(claim->path, bounds)) return NULL;
    }
    PyObject *id = name_of(claim->id, content, bounds), *read = id == NULL ? NULL : read_of(claim, id);
    Py_XDECREF(id);
    return read;
}

static int take_reads(Cursor *cursor, Content *content, const Bounds *bounds)
{
    Py_ssize_t count;
    if (!take_name(cursor, "reads") || !take_array(cursor, &count)) return 0;
    if (count < 1 || count > PARTS_MAX || count > bounds->reads) return 0;
    content->reads = PyTuple_New(count);
    if (content->reads == NULL) return 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *read = take_read(cursor, &content->claims[index], content, bounds);
        if (read == NULL) return 0;
        PyTuple_SET_ITEM(content->reads, index, read);
    }
    content->read_count = count;
    return 1;
}

/* ------------------------------------------------------------ whether all that is written is declared (COMMIT-3) */

static int lies_in(Text path, Text above)
{
    if (above.size > path.size || memcmp(path.data, above.data, (size_t)above.size)) return 0;
    return above.size == path.size || path.data[above.size] == '/';
}

/* In a declared read, or after a whole write of its own. */
static int is_declared(const Content *content, Py_ssize_t step, Text path)
{
    for (Py_ssize_t index = 0; index < content->read_count; index++)
        if (equal(content->claims[index].id, content->ids[step]) && lies_in(path, content->claims[index].path)) return 1;
    for (Py_ssize_t before = 0; before < step; before++)
        if (GET(PyTuple_GET_ITEM(content->steps, before), f_Step_writes) == Py_None && equal(content->ids[before], content->ids[step]))
            return 1;
    return 0;
}

static int all_declared(const Content *content)
{
    for (Py_ssize_t step = 0; step < content->step_count; step++) {
        PyObject *claims = GET(PyTuple_GET_ITEM(content->steps, step), f_Step_claims);
        for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(claims); index++) {
            Text path;
            path.data = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(claims, index), &path.size);
            if (path.data == NULL) return 0;
            if (!is_declared(content, step, path)) return 0;
        }
    }
    return 1;
}

/* ------------------------------------------------------------ the message */

/* Its digest: BLAKE3(msgpack [tag, nonce, content]) (COMMIT-5). */
static PyObject *digest_of(PyObject *nonce, PyObject *content)
{
    Pack pack;
    pack_begin(&pack);
    pack_array(&pack, 3);
    pack_text(&pack, o_TAG_REQUEST);
    pack_bytes(&pack, nonce);
    pack_bytes(&pack, content);
    return hashed(pack_end(&pack));
}

static int take_content(Text text, Content *content, const Bounds *bounds)
{
    Cursor cursor = {(const unsigned char *)text.data, (const unsigned char *)text.data + text.size};
    Py_ssize_t fields;
    if (!take_map(&cursor, &fields) || fields < 1 || fields > 2 || !take_steps(&cursor, content, bounds)) return 0;
    if (fields == 2 ? !take_reads(&cursor, content, bounds) : (content->reads = PyTuple_New(0)) == NULL) return 0;
    return cursor.at == cursor.end && all_declared(content);
}

static PyObject *proposal_of(Content *content, PyObject *principal, PyObject *session, long long local, Text nonce, Text text)
{
    PyObject *number = PyLong_FromLongLong(local), *identity = MAKE(LocalIdentity, principal, session, number);
    PyObject *random = PyBytes_FromStringAndSize(nonce.data, nonce.size), *bytes = PyBytes_FromStringAndSize(text.data, text.size);
    PyObject *request = random == NULL || bytes == NULL ? NULL : digest_of(random, bytes), *none = PyTuple_New(0);
    PyObject *proposal = MAKE(Proposal, identity, request, o_MAIN, content->steps, content->reads, Py_None, Py_None, Py_None, Py_None, none, none, Py_None);
    Py_XDECREF(number);
    Py_XDECREF(identity);
    Py_XDECREF(random);
    Py_XDECREF(bytes);
    Py_XDECREF(request);
    Py_XDECREF(none);
    return proposal;
}

static int read_bounds(Bounds *bounds, PyObject *given, PyObject *limits)
{
    bounds->limits = limits;
    return PyArg_ParseTuple(given, "LLLLL", &bounds->id_bytes, &bounds->operations, &bounds->reads, &bounds->value_bytes, &bounds->depth);
}

PyObject *native_read(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Bounds bounds;
    Content content = {0};
    Text nonce, text;
    Py_ssize_t fields;
    long long local;
    PyObject *proposal = NULL;
    if (count != 5 || !PyBytes_Check(args[0]) || !PyTuple_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, native_read_doc);
        return NULL;
    }
    if (!read_bounds(&bounds, args[3], args[4])) return NULL;
    Cursor cursor = {(unsigned char *)PyBytes_AS_STRING(args[0]), (unsigned char *)PyBytes_AS_STRING(args[0]) + PyBytes_GET_SIZE(args[0])};
    if (take_map(&cursor, &fields) && fields == 4 && take_name(&cursor, "type") && take_name(&cursor, "commit") &&
        take_name(&cursor, "local") && take_number(&cursor, &local) && local > 0 && take_name(&cursor, "nonce") &&
        take_bytes(&cursor, &nonce.data, &nonce.size) && nonce.size == NONCE_BYTES && take_name(&cursor, "content") &&
        take_bytes(&cursor, &text.data, &text.size) && cursor.at == cursor.end && take_content(text, &content, &bounds))
        proposal = proposal_of(&content, args[1], args[2], local, nonce, text);
    Py_XDECREF(content.steps);
    Py_XDECREF(content.reads);
    if (proposal == NULL && !PyErr_Occurred()) Py_RETURN_NONE;
    return proposal;
}
