/* A library for LD_PRELOAD with programs on MPICH 4.0 and 4.1 over UCX (Debian's), whose
 * MPI_Finalize may hang: each rank first waits until its connections are closed, for which UCX may
 * need an answer of the peer, and then in a barrier of the launcher, in which it answers no peer.
 * The rank that reaches the barrier first blocks the others (github.com/pmodels/mpich, pull request
 * 6596; 4.2 has no such barrier). With a delay between hosts, most programs hang.
 *
 * This library reports connections as closed at once, once all sent data have had DRAIN to be
 * transmitted. They are really closed after the barrier, together with the worker that owns them
 * (closing a connection without waiting for it fails an assertion in UCX). UCX's headers are not
 * needed: its pointers are only passed on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

#define DRAIN 0.05 /* seconds */

static void *worker;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + t.tv_nsec / 1e9;
}

int ucp_worker_create(void *context, const void *parameters, void **made) {
	int (*create)(void *, const void *, void **) = (int (*)(void *, const void *, void **))dlsym(RTLD_NEXT, "ucp_worker_create");
	int status = create(context, parameters, made);
	if (!status) worker = *made;
	return status;
}

/* NULL means "closed". */
void *ucp_disconnect_nb(void *endpoint) {
	unsigned (*progress)(void *) = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
	double until = now() + DRAIN;
	(void)endpoint;
	while (worker && progress && now() < until) progress(worker);
	worker = NULL; /* one drain is enough for all connections */
	return NULL;
}
