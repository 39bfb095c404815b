/* Writes msgpack for hashes, byte for byte as `stemmadb.protocol.model.values.body.encode` writes it, and BLAKE3. */
#include "native.h"

void pack_begin(Pack *pack)
{
    pack->start = pack->at = pack->small;
    pack->end = pack->small + sizeof pack->small;
    pack->failed = 0;
}

/* Room for so many bytes more, at `pack->at`. */
static int make_room(Pack *pack, size_t count)
{
    if (pack->failed) return 0;
    if ((size_t)(pack->end - pack->at) >= count) return 1;
    size_t used = (size_t)(pack->at - pack->start), size = 2 * (used + count);
    unsigned char *larger = PyMem_Malloc(size);
    if (larger == NULL) {
        PyErr_NoMemory();
        pack->failed = 1;
        return 0;
    }
    memcpy(larger, pack->start, used);
    if (pack->start != pack->small) PyMem_Free(pack->start);
    pack->start = larger;
    pack->at = larger + used;
    pack->end = larger + size;
    return 1;
}

/* A number of `width` bytes, behind the byte that says what it is. */
static void put(Pack *pack, unsigned char what, unsigned long long number, int width)
{
    *pack->at++ = what;
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) *pack->at++ = (unsigned char)(number >> shift);
}

void pack_array(Pack *pack, Py_ssize_t count)
{
    if (!make_room(pack, 5)) return;
    if (count < 16)
        *pack->at++ = (unsigned char)(0x90 | count);
    else if (count < 65536)
        put(pack, 0xdc, (unsigned long long)count, 2);
    else
        put(pack, 0xdd, (unsigned long long)count, 4);
}

void pack_map(Pack *pack, int count)
{
    assert(count < 16);
    if (make_room(pack, 1)) *pack->at++ = (unsigned char)(0x80 | count);
}

void pack_nothing(Pack *pack)
{
    if (make_room(pack, 1)) *pack->at++ = 0xc0;
}

void pack_text(Pack *pack, PyObject *text)
{
    Py_ssize_t size = 0;
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data == NULL) pack->failed = 1;
    pack_raw_text(pack, data, size);
}

/* So many bytes behind their size; what comes first says whether that has one, two or four bytes. */
static void pack_run(Pack *pack, const unsigned char heads[3], const char *data, Py_ssize_t size)
{
    int wide = size < 256 ? 0 : size < 65536 ? 1 : 2;
    if (!make_room(pack, (size_t)size + 5)) return;
    put(pack, heads[wide], (unsigned long long)size, 1 << wide);
    memcpy(pack->at, data, (size_t)size);
    pack->at += size;
}

void pack_raw_text(Pack *pack, const char *data, Py_ssize_t size)
{
    if (size >= 32) {
        pack_run(pack, (const unsigned char[]){0xd9, 0xda, 0xdb}, data, size);
    } else if (make_room(pack, (size_t)size + 1)) {
        *pack->at++ = (unsigned char)(0xa0 | size);
        memcpy(pack->at, data, (size_t)size);
        pack->at += size;
    }
}

void pack_bytes(Pack *pack, PyObject *bytes)
{
    char *data = NULL;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) pack->failed = 1;
    pack_run(pack, (const unsigned char[]){0xc4, 0xc5, 0xc6}, data, size);
}

/* Versions, locals and times: none of them is below zero. */
void pack_number(Pack *pack, PyObject *number)
{
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) pack->failed = 1;
    if (!make_room(pack, 9)) return;
    if (value < 0x80)
        *pack->at++ = (unsigned char)value;
    else if (value <= 0xff)
        put(pack, 0xcc, value, 1);
    else if (value <= 0xffff)
        put(pack, 0xcd, value, 2);
    else if (value <= 0xffffffff)
        put(pack, 0xce, value, 4);
    else
        put(pack, 0xcf, value, 8);
}

PyObject *pack_end(Pack *pack)
{
    PyObject *bytes = NULL;
    if (!pack->failed) bytes = PyBytes_FromStringAndSize((char *)pack->start, pack->at - pack->start);
    if (pack->start != pack->small) PyMem_Free(pack->start);
    return bytes;
}

PyObject *joined(PyObject *salt, PyObject *body)
{
    if (!PyBytes_Check(salt) || !PyBytes_Check(body)) {
        PyErr_SetString(PyExc_TypeError, "a salt and a body are bytes");
        return NULL;
    }
    Py_ssize_t first = PyBytes_GET_SIZE(salt), second = PyBytes_GET_SIZE(body);
    PyObject *both = PyBytes_FromStringAndSize(NULL, first + second);
    if (both == NULL) return NULL;
    memcpy(PyBytes_AS_STRING(both), PyBytes_AS_STRING(salt), (size_t)first);
    memcpy(PyBytes_AS_STRING(both) + first, PyBytes_AS_STRING(body), (size_t)second);
    return both;
}

PyObject *hashed(PyObject *data)
{
    static PyObject *digest;
    if (digest == NULL) digest = PyUnicode_InternFromString("digest");
    if (data == NULL || digest == NULL) {
        Py_XDECREF(data);
        return NULL;
    }
    PyObject *values[] = {NULL, data};
    PyObject *hasher = PyObject_Vectorcall(o_blake3, values + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(data);
    if (hasher == NULL) return NULL;
    PyObject *hash = PyObject_CallMethodNoArgs(hasher, digest);
    Py_DECREF(hasher);
    return hash;
}
