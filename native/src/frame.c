/* Encodes the frame that only has the verdicts on accepted commits of its recipient, as `wire.codec` does. */
#include "native.h"

const char native_frame_doc[] =
    "frame(from, to, hash, own): the bytes of a `sync` with the verdicts on own commits, each a pair of the commit and "
    "the salts of its facts.";

static void pack_name(Pack *pack, const char *name) { pack_raw_text(pack, name, (Py_ssize_t)strlen(name)); }

static void pack_hashes(Pack *pack, PyObject *hashes)
{
    pack_array(pack, PyTuple_GET_SIZE(hashes));
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(hashes); index++) pack_bytes(pack, PyTuple_GET_ITEM(hashes, index));
}

/* A delete has none. */
static void pack_salts(Pack *pack, PyObject *salts)
{
    pack_array(pack, PyTuple_GET_SIZE(salts));
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(salts); index++) {
        PyObject *salt = PyTuple_GET_ITEM(salts, index);
        if (salt == Py_None)
            pack_nothing(pack);
        else
            pack_bytes(pack, salt);
    }
}

static void pack_verdict(Pack *pack, PyObject *commit, PyObject *salts)
{
    pack_map(pack, 8);
    pack_name(pack, "verdict");
    pack_name(pack, "accepted");
    pack_name(pack, "local");
    pack_number(pack, GET(GET(commit, f_Commit_identity), f_LocalIdentity_local));
    pack_name(pack, "version");
    pack_number(pack, GET(commit, f_Commit_version));
    pack_name(pack, "time");
    pack_number(pack, GET(commit, f_Commit_time));
    pack_name(pack, "hash");
    pack_bytes(pack, GET(commit, f_Commit_hash));
    pack_name(pack, "request");
    pack_bytes(pack, GET(commit, f_Commit_request));
    pack_name(pack, "hashes");
    pack_hashes(pack, GET(commit, f_Commit_facts));
    pack_name(pack, "salts");
    pack_salts(pack, salts);
}

static int is_own(PyObject *pair)
{
    return PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && IS(PyTuple_GET_ITEM(pair, 0), Commit) &&
           PyTuple_Check(PyTuple_GET_ITEM(pair, 1)) && PyTuple_Check(GET(PyTuple_GET_ITEM(pair, 0), f_Commit_facts)) && IS(GET(PyTuple_GET_ITEM(pair, 0), f_Commit_identity), LocalIdentity);
}

PyObject *native_frame(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 4 || !PyList_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, native_frame_doc);
        return NULL;
    }
    Pack pack;
    pack_begin(&pack);
    pack_map(&pack, 5);
    pack_name(&pack, "type");
    pack_name(&pack, "sync");
    pack_name(&pack, "from");
    pack_number(&pack, args[0]);
    pack_name(&pack, "to");
    pack_number(&pack, args[1]);
    pack_name(&pack, "hash");
    pack_bytes(&pack, args[2]);
    pack_name(&pack, "verdicts");
    pack_array(&pack, PyList_GET_SIZE(args[3]));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(args[3]) && !pack.failed; index++) {
        PyObject *pair = PyList_GET_ITEM(args[3], index);
        if (is_own(pair))
            pack_verdict(&pack, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        else {
            PyErr_SetString(PyExc_TypeError, native_frame_doc);
            pack.failed = 1;
        }
    }
    return pack_end(&pack);
}
