/* A cursor over msgpack that takes only the one shortest form of everything: what is written in another form is left
   to the reader in Python, so that nothing needs to be encoded again to know that it was exact. */
#ifndef STEMMADB_CURSOR_H
#define STEMMADB_CURSOR_H

#include "native.h"

typedef struct {
    const unsigned char *at, *end;
} Cursor;

/* Each takes something and returns 1, or returns 0 and the cursor is of no use any more. */
int take_size(Cursor *cursor, unsigned char fixed, int fixed_bits, const unsigned char heads[3], Py_ssize_t *size);
int take_array(Cursor *cursor, Py_ssize_t *count);
int take_map(Cursor *cursor, Py_ssize_t *count);
int take_text(Cursor *cursor, const char **data, Py_ssize_t *size);
int take_bytes(Cursor *cursor, const char **data, Py_ssize_t *size);
int take_number(Cursor *cursor, long long *number); /* not below zero */
int take_name(Cursor *cursor, const char *name);    /* a text that is just this */

/* A JSON value nested no deeper than `levels`. NULL without an error if it is anything else (MODEL-3). */
PyObject *take_value(Cursor *cursor, int levels);

int is_ascii(const char *data, Py_ssize_t size);
PyObject *ascii(const char *data, Py_ssize_t size);

#endif
