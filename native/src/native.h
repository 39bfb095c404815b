/* What the files of the fast path share: fields of records at known offsets, msgpack for hashes, and BLAKE3.

   The fast path does for ordinary commits what the modules named in each file do in Python, and nothing else: it
   returns None for everything it does not handle, and then Python decides. Its only state is the classes and constants
   that `bind` gave it.
*/
#ifndef STEMMADB_NATIVE_H
#define STEMMADB_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

/* A field of a record (a msgspec Struct) is a reference at a fixed place of its object. */
#define GET(record, field) (*(PyObject **)((char *)(record) + (field)))

/* Every name that is bound, and every field that is looked at. */
#define OBJECTS(X) \
    X(Accepted) X(BatchBase) X(RecordedChange) X(Changes) X(Commit) X(EntityState) X(Fact) X(Limits) X(LocalIdentity) X(Missing) \
    X(Proposal) X(Read) X(StemmaError) X(Step) X(Work) X(blake3) X(push) X(value_after) X(ABSENT) X(MAIN) X(NO_ARGUMENTS) \
    X(NO_BODY) X(TAG_COMMIT) X(TAG_FACT) X(TAG_REQUEST) X(WHOLE) X(patch_step) X(set) X(patch) X(delete) X(OF_ID) \
    X(OF_PATH) X(BLIND_AND_LIMITS) X(PATHS_MAX)

#define FIELDS(X) \
    X(Changes, shared) X(Changes, count) X(Commit, version) X(Commit, identity) X(Commit, time) X(Commit, request) \
    X(Commit, facts) X(Commit, hash) X(Commit, branch) X(Commit, arguments) X(Commit, note) X(Commit, note_salt) \
    X(Commit, note_digest) \
    X(EntityState, version) X(EntityState, hash) X(EntityState, value) X(EntityState, changes) \
    X(EntityState, seen_after) X(EntityState, patches) X(EntityState, patch_bytes) \
    X(Fact, version) X(Fact, index) X(Fact, id) X(Fact, kind) X(Fact, parent) X(Fact, digest) X(Fact, hash) \
    X(Fact, salt) X(Fact, body) X(LocalIdentity, principal) X(LocalIdentity, session) X(LocalIdentity, local) \
    X(BatchBase, space) X(BatchBase, version) X(BatchBase, hash) X(BatchBase, time) X(BatchBase, heads) X(BatchBase, highest) \
    X(Limits, value_bytes_max) X(Limits, scan_facts_max) \
    X(Proposal, identity) X(Proposal, request) X(Proposal, branch) X(Proposal, steps) X(Proposal, reads) \
    X(Proposal, details) X(Proposal, note) X(Proposal, merged) X(Proposal, planned) X(Proposal, delegated) \
    X(Proposal, refusal) \
    X(Read, version) X(Read, id) X(Read, branch) X(Read, locals) \
    X(Step, kind) X(Step, branch) X(Step, id) X(Step, body) X(Step, payload) X(Step, size) X(Step, writes) \
    X(Step, claims)

#define DECLARE_OBJECT(name) extern PyObject *o_##name;
OBJECTS(DECLARE_OBJECT)
#define DECLARE_FIELD(record, field) extern Py_ssize_t f_##record##_##field;
FIELDS(DECLARE_FIELD)

#define IS(object, record) ((PyObject *)Py_TYPE(object) == o_##record)

/* A record with these values, in the order of its fields; steals nothing. */
#define MAKE(record, ...) \
    make(o_##record, (PyObject *[]){NULL, __VA_ARGS__}, sizeof((PyObject *[]){__VA_ARGS__}) / sizeof(PyObject *))
PyObject *make(PyObject *record, PyObject **values, size_t count);

int same_text(PyObject *one, PyObject *other);
PyObject *joined(PyObject *salt, PyObject *body);
PyObject *hashed(PyObject *data); /* steals `data`, which may be NULL */

/* msgpack, as `body.encode` writes it. A pack that has failed stays failed. */
typedef struct {
    unsigned char *start, *at, *end;
    int failed;
    unsigned char small[1024];
} Pack;
void pack_begin(Pack *pack);
void pack_array(Pack *pack, Py_ssize_t count);
void pack_map(Pack *pack, int count);
void pack_nothing(Pack *pack);
void pack_text(Pack *pack, PyObject *text);
void pack_raw_text(Pack *pack, const char *data, Py_ssize_t size);
void pack_bytes(Pack *pack, PyObject *bytes);
void pack_number(Pack *pack, PyObject *number);
PyObject *pack_end(Pack *pack); /* the bytes, or NULL with an error */

PyObject *native_decide(PyObject *module, PyObject *const *args, Py_ssize_t count);
extern const char native_decide_doc[];
PyObject *native_read(PyObject *module, PyObject *const *args, Py_ssize_t count);
extern const char native_read_doc[];
PyObject *native_frame(PyObject *module, PyObject *const *args, Py_ssize_t count);
extern const char native_frame_doc[];
PyObject *native_rows(PyObject *module, PyObject *const *args, Py_ssize_t count);
extern const char native_rows_doc[];

/* The thread that writes blocks of the group WAL (wal_writer.c); shares nothing with the fast path. */
extern PyTypeObject wal_writer_type;

#endif
