/* delaysw: an Ethernet switch in user space that forwards every frame after a fixed one-way delay,
 * for kernels without netem.
 *
 *     delaysw DELAY_US SPIN_US INTERFACE:NAMESPACE...
 *
 *     host 0            host 1            host 2         each a network namespace (`ip netns`) with
 *     [ TAP ]           [ TAP ]           [ TAP ]        a TAP device, whose other end is a file
 *        \                 |                 /           descriptor of the switch
 *         `--- read, stamp: due = now + DELAY ---.
 *                                                |
 *        .---- [ ring of frames, oldest first ] <'
 *        |
 *         `--- due? write to the port of the frame's destination; to all others if it is unknown
 *
 * One ring is enough: all frames have the same delay, so the order of their arrival is the order of
 * their due times. Frames never overtake one another.
 *
 * Contract. A frame is written DELAY after the switch has read it, never earlier. SIGUSR1 prints by
 * how much later ("lateness": from the due time to the beginning of the write). The figure excludes
 * the time that a frame has waited in the TAP device to be read, and the network stacks of the two
 * hosts: a program measures more than DELAY by these, some 20 us each way (README.md). The
 * bandwidth is that of copies by one core; frames are lost only where a host's own queue is full.
 *
 * The timers of the kernel wake a sleeper late by a few to some dozen microseconds. With SPIN_US
 * the switch sleeps only until SPIN_US before a frame is due, and polls from there on: this is
 * exact, and costs SPIN_US of a core per frame (or group of frames). The switch should run with
 * real-time priority (`chrt -f`); otherwise it competes for a core with all other processes.
 *
 * Bounds: PORTS ports, RING frames in flight (24 MB at full size, which 10 Gbit/s has in flight in
 * 20 ms); while the ring is full nothing is read, and frames wait in the devices. A frame has at
 * most FRAME bytes: an MTU of 1500 with room to spare.
 *
 * SIGUSR1 prints the statistics since the last SIGUSR1; SIGTERM terminates the switch and removes
 * its devices. When it is ready, it prints a line that begins with "ready". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PORTS 64
#define RING 16384u /* a power of two: positions wrap */
#define FRAME 2048
#define BURST 8 /* frames read from one port between readings of the clock */

struct frame {
	uint64_t due; /* nanoseconds of CLOCK_MONOTONIC */
	int from;
	int length;
	unsigned char bytes[FRAME];
};

struct port {
	int tap;
	int known; /* whether `address` has been seen yet */
	unsigned char address[6];
};

/* The ring holds the positions first..next. Its pages are touched only when they are first used. */
static struct frame ring[RING];
static uint32_t first, next;
static struct port ports[PORTS];
static int port_count;

static struct {
	uint64_t frames, refused, late_sum, late_max, since, cpu_since;
} seen;

static volatile sig_atomic_t print_wanted;

static void on_usr1(int signal) {
	(void)signal;
	print_wanted = 1;
}

static void fail(const char *what) {
	fprintf(stderr, "delaysw: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the processor time of the switch, which has one thread. The stacks of the receiving hosts
 * run in its writes, so they are included. */
static uint64_t cpu(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void print_statistics(void) {
	uint64_t wall = now() - seen.since, used = cpu() - seen.cpu_since;
	printf("frames %llu refused %llu lateness_mean_us %.1f lateness_max_us %.1f seconds %.1f cpu_percent %.1f\n",
	       (unsigned long long)seen.frames, (unsigned long long)seen.refused,
	       seen.frames ? seen.late_sum / 1e3 / seen.frames : 0.0, seen.late_max / 1e3, wall / 1e9,
	       wall ? 100.0 * used / wall : 0.0);
	fflush(stdout);
	memset(&seen, 0, sizeof seen);
	seen.since = now();
	seen.cpu_since = cpu();
}

/* Makes a TAP device in a namespace: it belongs to the namespace in which /dev/net/tun was opened;
 * the descriptor is usable from any namespace. */
static int open_tap(char *interface_and_namespace, int home) {
	char *colon = strchr(interface_and_namespace, ':'), path[256];
	struct ifreq request = {0};
	if (!colon || (size_t)(colon - interface_and_namespace) >= IFNAMSIZ) {
		fprintf(stderr, "delaysw: %s is not INTERFACE:NAMESPACE\n", interface_and_namespace);
		exit(2);
	}
	memcpy(request.ifr_name, interface_and_namespace, (size_t)(colon - interface_and_namespace));
	request.ifr_flags = IFF_TAP | IFF_NO_PI;
	snprintf(path, sizeof path, "/run/netns/%s", colon + 1);
	int namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0 || setns(namespace, CLONE_NEWNET)) fail(path);
	close(namespace);
	int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (tap < 0) fail("/dev/net/tun");
	if (ioctl(tap, TUNSETIFF, &request)) fail(interface_and_namespace);
	if (setns(home, CLONE_NEWNET)) fail("back to the namespace of the switch");
	return tap;
}

static void send_to(int port, const struct frame *frame) {
	/* Refused if the device is down (the host is cut off) or memory is short. A wire would lose the
	 * frame, too. */
	if (write(ports[port].tap, frame->bytes, (size_t)frame->length) < 0) seen.refused++;
}

static void deliver(const struct frame *frame) {
	int multicast = frame->bytes[0] & 1;
	if (!multicast) {
		for (int p = 0; p < port_count; p++) {
			if (!ports[p].known || memcmp(ports[p].address, frame->bytes, 6)) continue;
			if (p != frame->from) send_to(p, frame);
			return;
		}
	}
	for (int p = 0; p < port_count; p++) {
		if (p != frame->from) send_to(p, frame);
	}
}

static void deliver_due(void) {
	uint64_t at = now();
	while (first != next && ring[first % RING].due <= at) {
		const struct frame *frame = &ring[first % RING];
		uint64_t late = at - frame->due;
		seen.frames++;
		seen.late_sum += late;
		if (late > seen.late_max) seen.late_max = late;
		deliver(frame);
		first++;
		at = now();
	}
}

static void read_some(int p, uint64_t delay) {
	for (int i = 0; i < BURST && next - first < RING; i++) {
		struct frame *frame = &ring[next % RING];
		ssize_t length = read(ports[p].tap, frame->bytes, FRAME);
		if (length < 14) return; /* nothing there (EAGAIN), or no whole header */
		memcpy(ports[p].address, frame->bytes + 6, 6);
		ports[p].known = 1;
		frame->from = p;
		frame->length = (int)length;
		frame->due = now() + delay;
		next++;
	}
}

static uint64_t microseconds(const char *text) {
	char *end;
	double value = strtod(text, &end);
	if (end == text || *end || !(value >= 0 && value <= 60e6)) {
		fprintf(stderr, "delaysw: %s is not a number of microseconds (0 to 60000000)\n", text);
		exit(2);
	}
	return (uint64_t)(value * 1000);
}

int main(int argc, char **argv) {
	if (argc < 4 || argc - 3 > PORTS) {
		fprintf(stderr, "usage: delaysw DELAY_US SPIN_US INTERFACE:NAMESPACE... (at most %d)\n", PORTS);
		return 2;
	}
	uint64_t delay = microseconds(argv[1]), spin = microseconds(argv[2]);

	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), epoll = epoll_create1(EPOLL_CLOEXEC);
	if (home < 0 || epoll < 0) fail("setting up");
	for (; port_count < argc - 3; port_count++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)port_count};
		ports[port_count].tap = open_tap(argv[3 + port_count], home);
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, ports[port_count].tap, &event)) fail("epoll_ctl");
	}
	struct sigaction action = {.sa_handler = on_usr1};
	sigaction(SIGUSR1, &action, NULL);
	/* Without this, the kernel lets a sleeper without real-time priority oversleep by 50 us to save
	 * wake-ups. */
	prctl(PR_SET_TIMERSLACK, 1ul);
	seen.since = now();
	seen.cpu_since = cpu();
	printf("ready: %d ports, delay %.1f us, spin %.1f us\n", port_count, delay / 1e3, spin / 1e3);
	fflush(stdout);

	for (;;) {
		deliver_due();
		if (print_wanted) {
			print_wanted = 0;
			print_statistics();
		}
		/* Sleep until a frame arrives, or until the next one is nearly due; from there on poll. */
		struct timespec rest, *limit = NULL;
		if (first != next) {
			uint64_t at = now(), due = ring[first % RING].due, left = due > at + spin ? due - at - spin : 0;
			rest.tv_sec = (time_t)(left / 1000000000u);
			rest.tv_nsec = (long)(left % 1000000000u);
			limit = &rest;
		}
		if (next - first == RING) { /* full: nothing may be read, and epoll would not sleep */
			nanosleep(limit, NULL);
			continue;
		}
		struct epoll_event events[PORTS];
		int count = (int)syscall(SYS_epoll_pwait2, epoll, events, PORTS, limit, NULL, (size_t)0);
		if (count < 0 && errno != EINTR) fail("epoll_pwait2");
		for (int i = 0; i < count; i++) {
			read_some((int)events[i].data.u32, delay);
			deliver_due();
		}
	}
}
