/* The cursor: sizes, texts, numbers and JSON values in their one shortest form; see cursor.h. */
#include "cursor.h"

#include <math.h>

static int has(const Cursor *cursor, Py_ssize_t count) { return cursor->end - cursor->at >= count; }

static unsigned long long big_endian(const unsigned char *at, int width)
{
    unsigned long long number = 0;
    for (int index = 0; index < width; index++) number = number << 8 | at[index];
    return number;
}

/* A number of `width` bytes that would not have fitted in less. */
static int take_wide(Cursor *cursor, int width, unsigned long long least, unsigned long long *number)
{
    if (!has(cursor, 1 + width)) return 0;
    *number = big_endian(cursor->at + 1, width);
    cursor->at += 1 + width;
    return *number >= least;
}

int take_size(Cursor *cursor, unsigned char fixed, int fixed_bits, const unsigned char heads[3], Py_ssize_t *size)
{
    static const unsigned long long beyond[] = {0, 0x100, 0x10000};
    unsigned long long wide, fits = fixed_bits ? 1ULL << fixed_bits : 0;
    if (!has(cursor, 1)) return 0;
    unsigned char first = *cursor->at;
    if (fixed_bits && first >> fixed_bits == fixed >> fixed_bits) {
        *size = first & ((1 << fixed_bits) - 1);
        cursor->at++;
        return 1;
    }
    for (int index = 0; index < 3; index++)
        if (heads[index] && first == heads[index]) {
            /* where there is no head for one byte, two are needed for all that is not fixed */
            unsigned long long least = index == 0 || (index == 1 && !heads[0]) ? fits : beyond[index];
            if (!take_wide(cursor, 1 << index, least, &wide)) return 0;
            *size = (Py_ssize_t)wide;
            return 1;
        }
    return 0;
}

int take_array(Cursor *cursor, Py_ssize_t *count)
{
    return take_size(cursor, 0x90, 4, (const unsigned char[]){0, 0xdc, 0xdd}, count);
}

int take_map(Cursor *cursor, Py_ssize_t *count)
{
    return take_size(cursor, 0x80, 4, (const unsigned char[]){0, 0xde, 0xdf}, count);
}

static int take_run(Cursor *cursor, const char **data, Py_ssize_t size)
{
    if (!has(cursor, size)) return 0;
    *data = (const char *)cursor->at;
    cursor->at += size;
    return 1;
}

int take_text(Cursor *cursor, const char **data, Py_ssize_t *size)
{
    return take_size(cursor, 0xa0, 5, (const unsigned char[]){0xd9, 0xda, 0xdb}, size) && take_run(cursor, data, *size);
}

int take_bytes(Cursor *cursor, const char **data, Py_ssize_t *size)
{
    return take_size(cursor, 0, 0, (const unsigned char[]){0xc4, 0xc5, 0xc6}, size) && take_run(cursor, data, *size);
}

int take_number(Cursor *cursor, long long *number)
{
    static const unsigned long long least[] = {0x80, 0x100, 0x10000, 0x100000000};
    unsigned long long wide = 0;
    if (!has(cursor, 1)) return 0;
    unsigned char first = *cursor->at;
    if (first < 0x80) {
        cursor->at++;
        *number = first;
        return 1;
    }
    if (first < 0xcc || first > 0xcf) return 0;
    if (!take_wide(cursor, 1 << (first - 0xcc), least[first - 0xcc], &wide) || wide > LLONG_MAX) return 0;
    *number = (long long)wide;
    return 1;
}

int take_name(Cursor *cursor, const char *name)
{
    Py_ssize_t size = (Py_ssize_t)strlen(name);
    if (size > 31 || !has(cursor, 1 + size) || *cursor->at != (0xa0 | size)) return 0;
    if (memcmp(cursor->at + 1, name, (size_t)size)) return 0;
    cursor->at += 1 + size;
    return 1;
}

int is_ascii(const char *data, Py_ssize_t size)
{
    for (Py_ssize_t index = 0; index < size; index++)
        if (data[index] & 0x80) return 0;
    return 1;
}

PyObject *ascii(const char *data, Py_ssize_t size)
{
    PyObject *text = PyUnicode_New(size, 127);
    if (text != NULL) memcpy(PyUnicode_1BYTE_DATA(text), data, (size_t)size);
    return text;
}

/* ------------------------------------------------------------ values */

/* What is not UTF-8 is no error here: it is only not ours. */
static PyObject *text_of(const char *data, Py_ssize_t size)
{
    if (is_ascii(data, size)) return ascii(data, size);
    PyObject *text = PyUnicode_DecodeUTF8(data, size, NULL);
    if (text == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) PyErr_Clear();
    return text;
}

#define KEYS 512
#define KEY_BYTES_MAX 32

/* Keys occur again and again: values share them, which saves their memory and the hashing of each. */
static PyObject *key_of(const char *data, Py_ssize_t size)
{
    static PyObject *known[KEYS];
    if (size == 0 || size > KEY_BYTES_MAX || !is_ascii(data, size)) return text_of(data, size);
    size_t number = (size_t)size;
    for (Py_ssize_t index = 0; index < size; index++) number = number * 31 + (unsigned char)data[index];
    PyObject **place = &known[number % KEYS];
    if (*place != NULL && PyUnicode_GET_LENGTH(*place) == size && !memcmp(PyUnicode_1BYTE_DATA(*place), data, (size_t)size))
        return Py_NewRef(*place);
    PyObject *key = ascii(data, size);
    if (key != NULL) Py_XSETREF(*place, Py_NewRef(key));
    return key;
}

static PyObject *take_list(Cursor *cursor, int levels)
{
    Py_ssize_t count;
    if (!take_array(cursor, &count) || !has(cursor, count)) return NULL;
    PyObject *list = PyList_New(count);
    for (Py_ssize_t index = 0; list != NULL && index < count; index++) {
        PyObject *item = take_value(cursor, levels);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, index, item);
    }
    return list;
}

/* A key that occurs twice leaves fewer than were counted. */
static PyObject *take_object(Cursor *cursor, int levels)
{
    const char *data;
    Py_ssize_t count, size;
    if (!take_map(cursor, &count) || !has(cursor, 2 * count)) return NULL;
    PyObject *object = PyDict_New();
    for (Py_ssize_t index = 0; object != NULL && index < count; index++) {
        PyObject *key = take_text(cursor, &data, &size) ? key_of(data, size) : NULL;
        PyObject *value = key == NULL ? NULL : take_value(cursor, levels);
        if (value == NULL || PyDict_SetItem(object, key, value) < 0) Py_CLEAR(object);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (object != NULL && PyDict_GET_SIZE(object) != count) Py_CLEAR(object);
    return object;
}

static PyObject *take_negative(Cursor *cursor)
{
    static const long long most[] = {-33, -129, -32769, -2147483649LL};
    unsigned char first = *cursor->at;
    if (first >= 0xe0) {
        cursor->at++;
        return PyLong_FromLong((signed char)first);
    }
    int width = 1 << (first - 0xd0);
    if (!has(cursor, 1 + width)) return NULL;
    unsigned long long bits = big_endian(cursor->at + 1, width);
    if (width < 8 && bits >> (8 * width - 1)) bits |= ~0ULL << (8 * width);
    cursor->at += 1 + width;
    return (long long)bits <= most[first - 0xd0] ? PyLong_FromLongLong((long long)bits) : NULL;
}

static PyObject *take_float(Cursor *cursor)
{
    double number;
    if (!has(cursor, 9)) return NULL;
    unsigned long long bits = big_endian(cursor->at + 1, 8);
    memcpy(&number, &bits, sizeof number);
    cursor->at += 9;
    return isfinite(number) ? PyFloat_FromDouble(number) : NULL;
}

static PyObject *take_scalar(Cursor *cursor, unsigned char first)
{
    static PyObject *const none = Py_None;
    long long number;
    if (first == 0xc0 || first == 0xc2 || first == 0xc3) {
        cursor->at++;
        return Py_NewRef(first == 0xc0 ? none : first == 0xc2 ? Py_False : Py_True);
    }
    if (first == 0xcb) return take_float(cursor);
    if (first >= 0xe0 || (first >= 0xd0 && first <= 0xd3)) return take_negative(cursor);
    return take_number(cursor, &number) ? PyLong_FromLongLong(number) : NULL;
}

PyObject *take_value(Cursor *cursor, int levels)
{
    const char *data;
    Py_ssize_t size;
    if (!has(cursor, 1)) return NULL;
    unsigned char first = *cursor->at;
    if ((first & 0xe0) == 0xa0 || (first >= 0xd9 && first <= 0xdb))
        return take_text(cursor, &data, &size) ? text_of(data, size) : NULL;
    if ((first & 0xf0) == 0x80 || first == 0xde || first == 0xdf) return levels ? take_object(cursor, levels - 1) : NULL;
    if ((first & 0xf0) == 0x90 || first == 0xdc || first == 0xdd) return levels ? take_list(cursor, levels - 1) : NULL;
    return take_scalar(cursor, first);
}
