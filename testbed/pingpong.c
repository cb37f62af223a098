/* pingpong: measures MPI between the hosts of a testbed, and checks that the hosts suit Syncline's
 * programs.
 *
 *     pingpong [ROUNDS]        (200)
 *
 * Every rank reports its place, after which rank 0 prints lines that begin with a word for scripts:
 *     hosts     the number of hosts by names and by network namespaces; both must agree, and ranks
 *               must stand in blocks
 *     pingpong  round trips of 8 bytes between rank 0 and the first rank of another host: half of
 *               the median, in us
 *     within    the same with another rank of the same host, if there is one
 *     barrier   the mean of MPI_Barrier over all ranks
 *     threads   round trips answered by a second thread of each rank that polls MPI_Improbe in a
 *               communicator of its own and sleeps between polls, while the first thread is in MPI
 *               calls, too (MPI_THREAD_MULTIPLE)
 *     ok        all checks have passed
 * Times are reported, not judged: with more ranks than cores they depend on the scheduler. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CALL = 1, ANSWER, STOP };

static int rank, size;
static MPI_Comm service;

struct place {
	char name[64];
	unsigned long long network;
};

static int by_size(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median_us(double *seconds, int count) {
	qsort(seconds, (size_t)count, sizeof *seconds, by_size);
	return seconds[count / 2] * 1e6;
}

/* Yields at first, then sleeps for doubling times up to 200 us: with more threads than cores, a
 * thread that only polls takes the core from the threads that it waits for. */
static void rest(int *idle) {
	struct timespec t = {0, 0};
	if (++*idle < 50) {
		sched_yield();
		return;
	}
	t.tv_nsec = *idle < 58 ? 1000l << (*idle - 50) : 200000;
	nanosleep(&t, NULL);
}

static void receive(long *value, int from, int tag, MPI_Comm comm) {
	int idle = 0, there = 0;
	MPI_Request request;
	MPI_Irecv(value, 1, MPI_LONG, from, tag, comm, &request);
	while (MPI_Test(&request, &there, MPI_STATUS_IGNORE), !there) rest(&idle);
}

/* Measures between rank 0 and `other`; the other ranks wait in `together`, asleep. */
static void ping(const char *word, int other, int rounds, double *times) {
	long value = 0;
	for (int i = 0; i < rounds; i++) {
		if (rank == 0) {
			double start = MPI_Wtime();
			MPI_Send(&value, 1, MPI_LONG, other, CALL, MPI_COMM_WORLD);
			MPI_Recv(&value, 1, MPI_LONG, other, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			times[i] = MPI_Wtime() - start;
		} else if (rank == other) {
			MPI_Recv(&value, 1, MPI_LONG, 0, CALL, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&value, 1, MPI_LONG, 0, ANSWER, MPI_COMM_WORLD);
		}
	}
	if (rank == 0) printf("%s one-way %.1f us to rank %d\n", word, median_us(times, rounds) / 2, other);
}

/* All ranks but 0 and `other` sleep until those are done: a blocked MPI call would spin on a core
 * that they need. */
static void together(void) {
	int idle = 0, there = 0;
	MPI_Request request;
	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (MPI_Test(&request, &there, MPI_STATUS_IGNORE), !there) rest(&idle);
}

static void *serve(void *ignored) {
	int idle = 0;
	(void)ignored;
	prctl(PR_SET_TIMERSLACK, 1ul);
	for (;;) {
		int there = 0;
		long value;
		MPI_Message message;
		MPI_Status status;
		MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, service, &there, &message, &status);
		if (!there) {
			rest(&idle);
			continue;
		}
		idle = 0;
		MPI_Mrecv(&value, 1, MPI_LONG, &message, MPI_STATUS_IGNORE);
		if (status.MPI_TAG == STOP) return NULL;
		value += rank;
		MPI_Send(&value, 1, MPI_LONG, status.MPI_SOURCE, ANSWER + 100, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv) {
	int rounds = argc > 1 ? atoi(argv[1]) : 200, level, other = 0, hosts = 0, networks = 0, blocks = 0, good = 1;
	if (rounds < 1) rounds = 1;
	prctl(PR_SET_TIMERSLACK, 1ul);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_dup(MPI_COMM_WORLD, &service);

	struct place mine = {0}, *all = calloc((size_t)size, sizeof *all);
	struct stat network;
	gethostname(mine.name, sizeof mine.name - 1);
	if (!stat("/proc/self/ns/net", &network)) mine.network = network.st_ino;
	MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
	for (int r = 0; r < size; r++) {
		int name_is_new = 1, network_is_new = 1;
		for (int s = 0; s < r; s++) {
			if (!strcmp(all[s].name, all[r].name)) name_is_new = 0;
			if (all[s].network == all[r].network) network_is_new = 0;
		}
		hosts += name_is_new;
		networks += network_is_new;
		blocks += r == 0 || strcmp(all[r].name, all[r - 1].name);
		if (!other && strcmp(all[r].name, all[0].name)) other = r;
	}
	good = hosts == networks && hosts == blocks;
	if (rank == 0) printf("hosts %d, ranks %d%s\n", hosts, size, good ? "" : ": names, networks and order do not agree");

	double *times = malloc(sizeof *times * (size_t)rounds);
	int threads_good = level == MPI_THREAD_MULTIPLE;
	if (other) ping("pingpong", other, rounds, times);
	together();
	if (size > 1 && !strcmp(all[0].name, all[1].name)) ping("within", 1, rounds, times);
	together();
	/* The mean, not the median: a rank that is ahead by one delay finds every other barrier complete
	 * and waits twice as long in the next one. */
	double start = MPI_Wtime();
	for (int i = 0; i < rounds; i++) MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) printf("barrier %.1f us\n", (MPI_Wtime() - start) / rounds * 1e6);

	if (threads_good) {
		/* Every rank calls the server threads of all ranks, one after the other, while its own answers
		 * others. */
		pthread_t server;
		pthread_create(&server, NULL, serve, NULL);
		for (int i = 0; i < rounds; i++) {
			int to = (rank + 1 + i % size) % size;
			long value = 1000l * i;
			double start = MPI_Wtime();
			MPI_Send(&value, 1, MPI_LONG, to, CALL, service);
			receive(&value, to, ANSWER + 100, MPI_COMM_WORLD);
			times[i] = MPI_Wtime() - start;
			if (value != 1000l * i + to) threads_good = 0;
		}
		together();
		long nothing = 0;
		MPI_Send(&nothing, 1, MPI_LONG, rank, STOP, service);
		pthread_join(server, NULL);
		if (rank == 0) printf("threads round-trip %.1f us\n", median_us(times, rounds));
	} else if (rank == 0) {
		printf("threads level %d, wanted %d\n", level, MPI_THREAD_MULTIPLE);
	}
	good = good && threads_good;
	MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == 0) printf("%s\n", good ? "ok" : "wrong");
	MPI_Finalize();
	return good ? 0 : 1;
}
