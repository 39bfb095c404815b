/* The WAL writer: a thread that writes blocks of the group WAL to the disk without holding the interpreter lock.

   A Python thread has to wait for the lock before and after its write while the event loop is busy. This one is given
   a block, writes it, makes it durable, and reports that through a pipe that the event loop reads. */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNED 4096

enum state { IDLE, GIVEN, DONE };

typedef struct {
    PyObject_HEAD
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int has_thread;
    int is_closing;
    enum state state;
    int hear, tell; /* the two ends of the pipe */
    int file;
    int direct; /* the same file, opened to be written past the system's memory; -1 if it cannot be */
    off_t at;
    PyObject *block; /* ours from `write` until `result` has reported it */
    const char *data;
    size_t size;
    char *aligned; /* where a block is copied to that goes past the system's memory */
    size_t aligned_size;
    int error; /* an errno, 0 if it is durable */
} WalWriter;

/* ---- in the thread */

static int write_all(int file, const char *data, size_t size, off_t at) {
    while (size > 0) {
        ssize_t done = pwrite(file, data, size, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        data += done;
        size -= (size_t)done;
        at += done;
    }
    return 0;
}

/* Each write is durable by itself, straight from our own memory. */
static int write_directly(WalWriter *self) {
    if (self->aligned_size < self->size) {
        free(self->aligned);
        self->aligned = NULL;
        self->aligned_size = 0;
        if (posix_memalign((void **)&self->aligned, ALIGNED, self->size) != 0)
            return ENOMEM;
        self->aligned_size = self->size;
    }
    memcpy(self->aligned, self->data, self->size);
    return write_all(self->direct, self->aligned, self->size, self->at);
}

static int make_durable(WalWriter *self) {
    int error = self->direct < 0 ? EINVAL : write_directly(self);
    if (error != EINVAL) /* which says that the file system wants other blocks, or does not do it after all */
        return error;
    error = write_all(self->file, self->data, self->size, self->at);
    if (error == 0 && fdatasync(self->file) != 0)
        error = errno;
    return error;
}

static void say_so(WalWriter *self) {
    while (write(self->tell, "", 1) < 0 && errno == EINTR)
        ;
}

static void *serve(void *argument) {
    WalWriter *self = argument;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (self->state != GIVEN && !self->is_closing)
            pthread_cond_wait(&self->wake, &self->lock);
        if (self->state != GIVEN)
            break; /* a block that was given is written first */
        pthread_mutex_unlock(&self->lock);
        int error = make_durable(self);
        pthread_mutex_lock(&self->lock);
        self->error = error;
        self->state = DONE;
        say_so(self);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* ---- called by Python */

static PyObject *wal_writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    WalWriter *self = (WalWriter *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    int ends[2];
    self->hear = self->tell = -1;
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->wake, NULL);
    if (pipe(ends) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    self->hear = ends[0];
    self->tell = ends[1];
    fcntl(self->hear, F_SETFD, FD_CLOEXEC);
    fcntl(self->tell, F_SETFD, FD_CLOEXEC);
    fcntl(self->hear, F_SETFL, O_NONBLOCK);
    int failed = pthread_create(&self->thread, NULL, serve, self);
    if (failed) {
        errno = failed;
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    self->has_thread = 1;
    return (PyObject *)self;
}

static void stop(WalWriter *self) {
    if (self->has_thread) {
        pthread_mutex_lock(&self->lock);
        self->is_closing = 1;
        pthread_cond_signal(&self->wake);
        pthread_mutex_unlock(&self->lock);
        Py_BEGIN_ALLOW_THREADS
        pthread_join(self->thread, NULL);
        Py_END_ALLOW_THREADS
        self->has_thread = 0;
    }
    if (self->hear >= 0) {
        close(self->hear);
        close(self->tell);
        self->hear = self->tell = -1;
    }
    Py_CLEAR(self->block);
}

static void wal_writer_dealloc(WalWriter *self) {
    stop(self);
    free(self->aligned);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->wake);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *wal_writer_fileno(WalWriter *self, PyObject *none) {
    (void)none;
    return PyLong_FromLong(self->hear);
}

static PyObject *wal_writer_write(WalWriter *self, PyObject *args) {
    int file, direct;
    PyObject *block;
    long long at;
    if (!PyArg_ParseTuple(args, "iiSL", &file, &direct, &block, &at))
        return NULL;
    if (!self->has_thread || self->block != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "one block at a time, and none after close()");
        return NULL;
    }
    self->file = file;
    self->direct = direct;
    self->at = (off_t)at;
    self->block = Py_NewRef(block);
    self->data = PyBytes_AS_STRING(block);
    self->size = (size_t)PyBytes_GET_SIZE(block);
    pthread_mutex_lock(&self->lock);
    self->state = GIVEN;
    pthread_cond_signal(&self->wake);
    pthread_mutex_unlock(&self->lock);
    Py_RETURN_NONE;
}

static PyObject *wal_writer_result(WalWriter *self, PyObject *none) {
    (void)none;
    char said[16];
    while (self->hear >= 0 && read(self->hear, said, sizeof said) > 0)
        ;
    pthread_mutex_lock(&self->lock);
    int is_done = self->state == DONE, error = self->error;
    if (is_done)
        self->state = IDLE;
    pthread_mutex_unlock(&self->lock);
    if (!is_done)
        Py_RETURN_NONE;
    Py_CLEAR(self->block);
    return PyLong_FromLong(error);
}

static PyObject *wal_writer_close(WalWriter *self, PyObject *none) {
    (void)none;
    stop(self);
    Py_RETURN_NONE;
}

static PyMethodDef wal_writer_methods[] = {
    {"fileno", (PyCFunction)wal_writer_fileno, METH_NOARGS, "Readable once the block is durable or has failed."},
    {"write", (PyCFunction)wal_writer_write, METH_VARARGS, "write(file, direct, block, at): starts to write a block."},
    {"result", (PyCFunction)wal_writer_result, METH_NOARGS, "0 if the block is durable, else an errno; None while it is being written."},
    {"close", (PyCFunction)wal_writer_close, METH_NOARGS, "Ends the thread, after the block it was given."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject wal_writer_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "stemmadb._native.WalWriter",
    .tp_basicsize = sizeof(WalWriter),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = wal_writer_new,
    .tp_dealloc = (destructor)wal_writer_dealloc,
    .tp_methods = wal_writer_methods,
};
