// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Does what it is told, call by call, so that a test knows exactly what a recorder must see. The
 * arguments are operations, carried out in turn; those that make a process or thread carry out the
 * rest in it. A list of pages is written as 1,5,9. Exit code: 0, or 1 with a word on stderr.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/io_uring.h>

#define PAGE 4096ul
#define HUGE_BYTES (2ul << 20)

static void die(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_or_die(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die(path);
	return fd;
}

static size_t size_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		die("fstat");
	return st.st_size;
}

/* The next page of a list; -1 at its end. */
static long next_page(char **list)
{
	long page;

	if (!**list)
		return -1;
	page = strtol(*list, list, 10);
	if (**list == ',')
		(*list)++;
	return page;
}

static void read_pages(const char *path, char *list, size_t bytes, size_t from)
{
	int fd = open_or_die(path);
	char *buffer = malloc(bytes);
	long page;

	while ((page = next_page(&list)) >= 0)
		if (pread(fd, buffer, bytes, page * PAGE + from) < 0)
			die("pread");
	close(fd);
	free(buffer);
}

static void read_by(const char *path, size_t bytes)
{
	int fd = open_or_die(path);
	char *buffer = malloc(bytes);
	ssize_t got;

	while ((got = read(fd, buffer, bytes)) > 0)
		;
	if (got < 0)
		die("read");
	close(fd);
	free(buffer);
}

static void read_vectors(const char *path)
{
	int fd = open_or_die(path);
	static char a[5000], b[70000];
	struct iovec vectors[2] = { { a, sizeof(a) }, { b, sizeof(b) } };

	while (readv(fd, vectors, 2) > 0)
		;
	close(fd);
}

static volatile unsigned char sink;
static unsigned char *last_map;
static size_t last_size;

static void touch_pages(const char *path, const char *how, char *list)
{
	int fd = open_or_die(path), flags = MAP_PRIVATE;
	size_t size = (size_of(fd) + PAGE - 1) / PAGE * PAGE;
	unsigned char *place, *map;
	long page;

	if (!strcmp(how, "shared"))
		flags = MAP_SHARED;
	if (!strcmp(how, "populate"))
		flags |= MAP_POPULATE;
	/* At a place that a PMD could map, if it is large enough. */
	place = mmap(NULL, size + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED)
		die("mmap");
	place = (unsigned char *)(((uintptr_t)place + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES);
	map = mmap(place, size, PROT_READ, flags | MAP_FIXED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
	if (!strcmp(how, "random") && madvise(map, size, MADV_RANDOM))
		die("madvise");
	if (!strcmp(how, "huge") && madvise(map, size, MADV_HUGEPAGE))
		die("madvise");
	close(fd);
	last_map = map;
	last_size = size;
	while ((page = next_page(&list)) >= 0)
		sink = map[page * PAGE];
}

/* The first pages of a mapping that are in the page table, as ranges of first and end. */
static void tell_mapped(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	long page, start = -1, pages = last_size / PAGE;
	uint64_t entry;

	if (fd < 0)
		die("pagemap");
	for (page = 0; page <= pages; page++) {
		entry = 0;
		if (page < pages &&
		    pread(fd, &entry, 8, ((uintptr_t)last_map / PAGE + page) * 8) != 8)
			die("pagemap");
		if (entry >> 63 && start < 0)
			start = page;
		if (!(entry >> 63) && start >= 0) {
			printf("%ld-%ld\n", start, page);
			start = -1;
		}
	}
	fflush(stdout);
	close(fd);
}

/* How much of a file's mappings is by PMDs. */
static void tell_huge(const char *path)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	char line[8192];
	int ours = 0;
	long kib = 0;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		/* Lines of mappings begin with an address, in small letters. */
		if (*line < 'A' || *line > 'Z')
			ours = strstr(line, path) != NULL;
		if (ours && !strncmp(line, "FilePmdMapped:", 14))
			kib += atol(line + 14);
	}
	printf("pmd_mapped_kib=%ld\n", kib);
	fflush(stdout);
	if (smaps)
		fclose(smaps);
}

static void through_pipe(const char *path)
{
	int fd = open_or_die(path), ends[2], null = open("/dev/null", O_WRONLY);
	ssize_t got;

	if (pipe(ends))
		die("pipe");
	while ((got = splice(fd, NULL, ends[1], NULL, 65536, 0)) > 0)
		while (got > 0) {
			ssize_t out = splice(ends[0], NULL, null, NULL, got, 0);

			if (out <= 0)
				die("splice");
			got -= out;
		}
	if (got < 0)
		die("splice");
	close(fd);
}

static void send_to(const char *path, const char *out_path, int copy)
{
	int fd = open_or_die(path);
	int out = open(out_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t got;

	if (out < 0)
		die(out_path);
	do {
		got = copy ? copy_file_range(fd, NULL, out, NULL, 1 << 20, 0) :
			     sendfile(out, fd, NULL, 1 << 20);
	} while (got > 0);
	if (got < 0)
		die("copy");
	close(fd);
	close(out);
}

/* Reads a file by io_uring, one read of `bytes` at a time, without liburing. */
static void read_by_ring(const char *path, size_t bytes)
{
	struct io_uring_params p = {};
	int ring = syscall(__NR_io_uring_setup, 4, &p), fd = open_or_die(path);
	size_t size = size_of(fd), at = 0;
	char *buffer = malloc(bytes), *sq, *cq;
	struct io_uring_sqe *sqes;

	if (ring < 0) {
		printf("no io_uring: %s\n", strerror(errno));
		exit(0);
	}
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		die("io_uring mmap");
	while (at < size) {
		unsigned tail = *(unsigned *)(sq + p.sq_off.tail);
		unsigned slot = tail & (p.sq_entries - 1), head;
		struct io_uring_cqe *cqe;

		memset(&sqes[slot], 0, sizeof(*sqes));
		sqes[slot].opcode = IORING_OP_READ;
		sqes[slot].fd = fd;
		sqes[slot].addr = (uintptr_t)buffer;
		sqes[slot].len = bytes;
		sqes[slot].off = at;
		((unsigned *)(sq + p.sq_off.array))[slot] = slot;
		__atomic_store_n((unsigned *)(sq + p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
		if (syscall(__NR_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			die("io_uring_enter");
		head = *(unsigned *)(cq + p.cq_off.head);
		cqe = (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (head & (p.cq_entries - 1));
		if (cqe->res <= 0) {
			errno = -cqe->res;
			die("io_uring read");
		}
		at += cqe->res;
		__atomic_store_n((unsigned *)(cq + p.cq_off.head), head + 1, __ATOMIC_RELEASE);
	}
	close(fd);
	close(ring);
}

static void list(const char *path)
{
	DIR *directory = opendir(path);

	if (!directory)
		die(path);
	while (readdir(directory))
		;
	closedir(directory);
}

static int run(char **argv);

static void *rest_in_thread(void *argv)
{
	exit(run(argv));
}

static void *exec_in_thread(void *argv)
{
	execv(((char **)argv)[0], argv);
	die("execv");
	return NULL;
}

static void start_thread(void *(*what)(void *), char **argv)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, what, argv))
		die("pthread_create");
	pthread_join(thread, NULL);
}

static int wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child)
		die("fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void daemonize(void)
{
	if (fork())
		_exit(0);
	setsid();
	if (fork())
		_exit(0);
	usleep(20000);
}

#define IS(name) (!strcmp(op, name))

static int run(char **argv)
{
	struct statfs fs;
	struct statx stx;
	struct stat st;
	char text[4096], *op;
	pthread_t thread;
	int fd;

	while ((op = *argv++)) {
		if (IS("chdir")) {
			if (chdir(*argv++))
				die("chdir");
		} else if (IS("stat")) {
			stat(*argv++, &st);
		} else if (IS("lstat")) {
			lstat(*argv++, &st);
		} else if (IS("statx")) {
			statx(AT_FDCWD, *argv++, 0, STATX_BASIC_STATS, &stx);
		} else if (IS("statfs")) {
			statfs(*argv++, &fs);
		} else if (IS("access")) {
			access(*argv++, R_OK);
		} else if (IS("readlink")) {
			if (readlink(*argv++, text, sizeof(text)) < 0)
				die("readlink");
		} else if (IS("stat-at")) {
			fd = open(argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
			fstatat(fd, argv[1], &st, 0);
			close(fd);
			argv += 2;
		} else if (IS("read-at")) {
			fd = open(argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
			fd = openat(fd, argv[1], O_RDONLY | O_CLOEXEC);
			while (read(fd, text, sizeof(text)) > 0)
				;
			close(fd);
			argv += 2;
		} else if (IS("stat-descriptor")) {
			fd = open(*argv++, O_PATH | O_CLOEXEC);
			fstatat(fd, "", &st, AT_EMPTY_PATH);
			close(fd);
		} else if (IS("open")) {
			close(open(*argv++, O_RDONLY | O_CLOEXEC));
		} else if (IS("opendir")) {
			close(open(*argv++, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		} else if (IS("list")) {
			list(*argv++);
		} else if (IS("read")) {
			read_by(*argv++, 65536);
		} else if (IS("read-by")) {
			read_by(argv[0], atol(argv[1]));
			argv += 2;
		} else if (IS("readv")) {
			read_vectors(*argv++);
		} else if (IS("pread")) {
			read_pages(argv[0], argv[1], PAGE, 0);
			argv += 2;
		} else if (IS("pread-over")) {
			/* Two bytes that lie on the page named and the next one. */
			read_pages(argv[0], argv[1], 2, PAGE - 1);
			argv += 2;
		} else if (IS("map")) {
			touch_pages(argv[0], argv[1], argv[2]);
			argv += 3;
		} else if (IS("map-write")) {
			touch_pages(argv[0], "shared", "");
			fd = open("/dev/shm", O_TMPFILE | O_WRONLY, 0600);
			if (write(fd, last_map + atol(argv[1]) * PAGE, PAGE) != (ssize_t)PAGE)
				die("write");
			argv += 2;
		} else if (IS("tell-mapped")) {
			tell_mapped();
		} else if (IS("tell-huge")) {
			tell_huge(*argv++);
		} else if (IS("splice")) {
			through_pipe(*argv++);
		} else if (IS("sendfile")) {
			send_to(argv[0], argv[1], 0);
			argv += 2;
		} else if (IS("copy")) {
			send_to(argv[0], argv[1], 1);
			argv += 2;
		} else if (IS("ring")) {
			read_by_ring(argv[0], atol(argv[1]));
			argv += 2;
		} else if (IS("readahead")) {
			fd = open_or_die(*argv++);
			if (readahead(fd, 0, size_of(fd)))
				die("readahead");
		} else if (IS("willneed")) {
			fd = open_or_die(*argv++);
			if (posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED))
				die("fadvise");
		} else if (IS("touch")) {
			close(open(*argv++, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		} else if (IS("rename")) {
			if (rename(argv[0], argv[1]))
				die("rename");
			argv += 2;
		} else if (IS("unlink")) {
			if (unlink(*argv++))
				die("unlink");
		} else if (IS("times")) {
			/* The operation that follows, many times. */
			long times = atol(argv[0]);
			char *once[] = { argv[1], argv[2], NULL };

			while (times--)
				run(once);
			argv += 3;
		} else if (IS("sleep-ms")) {
			usleep(1000 * atol(*argv++));
		} else if (IS("fork")) {
			pid_t child = fork();

			if (child)
				return wait_for(child);
		} else if (IS("daemon")) {
			daemonize();
		} else if (IS("thread")) {
			start_thread(rest_in_thread, argv);
		} else if (IS("leader-exits")) {
			if (pthread_create(&thread, NULL, rest_in_thread, argv))
				die("pthread_create");
			pthread_exit(NULL);
		} else if (IS("exec")) {
			execv(argv[0], argv);
			die(argv[0]);
		} else if (IS("thread-exec")) {
			start_thread(exec_in_thread, argv);
		} else {
			fprintf(stderr, "probe: unknown operation %s\n", op);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	return argc ? run(argv + 1) : 1;
}
