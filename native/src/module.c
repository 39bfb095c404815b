/* The module `stemmadb._native`: the functions of the fast path, what is bound to them, and the WAL writer. */
#include "native.h"

#define DEFINE_OBJECT(name) PyObject *o_##name;
OBJECTS(DEFINE_OBJECT)
#define DEFINE_FIELD(record, field) Py_ssize_t f_##record##_##field;
FIELDS(DEFINE_FIELD)

static const struct {
    const char *name;
    PyObject **place;
} OBJECT_TABLE[] = {
#define OBJECT_ROW(name) {#name, &o_##name},
    OBJECTS(OBJECT_ROW)};

static const struct {
    const char *field;
    PyObject **record;
    Py_ssize_t *place;
} FIELD_TABLE[] = {
#define FIELD_ROW(record, field) {#field, &o_##record, &f_##record##_##field},
    FIELDS(FIELD_ROW)};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

PyObject *make(PyObject *record, PyObject **values, size_t count)
{
    for (size_t index = 1; index <= count; index++)
        if (values[index] == NULL) return NULL; /* whoever made it has set the error */
    return PyObject_Vectorcall(record, values + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

int same_text(PyObject *one, PyObject *other)
{
    if (one == other) return 1;
    return PyUnicode_Check(one) && PyUnicode_Check(other) && PyUnicode_Compare(one, other) == 0;
}

static int find_field(PyObject *record, const char *field, Py_ssize_t *place)
{
    PyObject *member = PyObject_GetAttrString(record, field);
    if (member == NULL) return -1;
    int is_member = Py_IS_TYPE(member, &PyMemberDescr_Type);
    if (is_member) *place = ((PyMemberDescrObject *)member)->d_member->offset;
    Py_DECREF(member);
    if (!is_member) PyErr_Format(PyExc_TypeError, "%R has no place for %s", record, field);
    return is_member ? 0 : -1;
}

static PyObject *bind(PyObject *Py_UNUSED(module), PyObject *named)
{
    for (size_t index = 0; index < COUNT(OBJECT_TABLE); index++) {
        PyObject *found = PyMapping_GetItemString(named, OBJECT_TABLE[index].name);
        if (found == NULL) return NULL;
        Py_XSETREF(*OBJECT_TABLE[index].place, found);
    }
    for (size_t index = 0; index < COUNT(FIELD_TABLE); index++)
        if (find_field(*FIELD_TABLE[index].record, FIELD_TABLE[index].field, FIELD_TABLE[index].place) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"bind", bind, METH_O, "Gives the fast path the classes and constants it works with, by name."},
    {"decide", (PyCFunction)(void (*)(void))native_decide, METH_FASTCALL, native_decide_doc},
    {"read", (PyCFunction)(void (*)(void))native_read, METH_FASTCALL, native_read_doc},
    {"frame", (PyCFunction)(void (*)(void))native_frame, METH_FASTCALL, native_frame_doc},
    {"rows", (PyCFunction)(void (*)(void))native_rows, METH_FASTCALL, native_rows_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "stemmadb._native",
    .m_doc = "The fast path of commits, with the same answers as the modules in Python or None, and the WAL writer.",
    .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&MODULE);
    if (module != NULL && PyModule_AddType(module, &wal_writer_type) < 0) Py_CLEAR(module);
    return module;
}
