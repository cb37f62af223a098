/* rtt: round trips to a host that its kernel answers (ICMP echo), without `ping`, which not every
 * machine has.
 *
 *     rtt ADDRESS COUNT        prints "min 442.1 median 447.0 max 480.3 us, lost 0 of 100"
 *
 * Sends one request at a time and waits at most a second for its answer; needs root. The exit code
 * is 1 if no answer came at all. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static uint16_t checksum(const void *bytes, size_t length) {
	const uint16_t *words = bytes;
	uint32_t sum = 0;
	for (size_t i = 0; i < length / 2; i++) sum += words[i];
	while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

int main(int argc, char **argv) {
	struct sockaddr_in to = {.sin_family = AF_INET};
	int count = argc == 3 ? atoi(argv[2]) : 0, got = 0;
	if (count < 1 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: rtt ADDRESS COUNT\n");
		return 2;
	}
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	struct timeval second = {.tv_sec = 1};
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second)) {
		perror("rtt: raw socket");
		return 1;
	}
	double *times = malloc(sizeof *times * (size_t)count);
	uint16_t id = htons((uint16_t)getpid());
	for (int i = 0; times && i < count; i++) {
		struct icmphdr request = {.type = ICMP_ECHO};
		request.un.echo.id = id;
		request.un.echo.sequence = htons((uint16_t)i);
		request.checksum = checksum(&request, sizeof request);
		double sent = now_us();
		if (sendto(fd, &request, sizeof request, 0, (struct sockaddr *)&to, sizeof to) < 0) continue;
		while (now_us() - sent < 1e6) {
			unsigned char packet[256];
			ssize_t length = recv(fd, packet, sizeof packet, 0);
			size_t header = (size_t)(packet[0] & 15) * 4;
			struct icmphdr answer;
			if (length < 0) break;
			if ((size_t)length < header + sizeof answer) continue;
			memcpy(&answer, packet + header, sizeof answer);
			if (answer.type != ICMP_ECHOREPLY || answer.un.echo.id != id || answer.un.echo.sequence != htons((uint16_t)i)) continue;
			times[got++] = now_us() - sent;
			break;
		}
	}
	if (!got) {
		printf("no answer to %d requests\n", count);
		return 1;
	}
	qsort(times, (size_t)got, sizeof *times, by_size);
	printf("min %.1f median %.1f max %.1f us, lost %d of %d\n", times[0], times[got / 2], times[got - 1], count - got, count);
	return 0;
}
