/* Builds one message of 1,000 map elements with libnftnl; see ../README.md. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libmnl/libmnl.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

enum { ELEMENTS = 1000, RUNS = 101 };

/* Counting wrappers, see --wrap in the build command; libnftnl is linked statically for them. */
static unsigned long allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n) { allocations++; return __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { allocations++; return __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { allocations++; return __real_realloc(p, n); }

static int by_size(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;
	return (x > y) - (x < y);
}

int main(void)
{
	static char buf[1 << 17];
	long times[RUNS];
	unsigned long before = 0;
	uint32_t bytes = 0;
	for (int run = 0; run < RUNS; run++) {
		struct timespec start, end;
		before = allocations;
		clock_gettime(CLOCK_MONOTONIC, &start);
		struct nftnl_set *set = nftnl_set_alloc();
		nftnl_set_set_str(set, NFTNL_SET_TABLE, "kube-proxy");
		nftnl_set_set_str(set, NFTNL_SET_NAME, "endpoints");
		nftnl_set_set_u32(set, NFTNL_SET_ID, 1);
		for (uint32_t i = 0; i < ELEMENTS; i++) {
			uint32_t key[4] = { htonl(i) };
			uint8_t value[8] = { 10, 0, 0, 1, 0, 80 };
			struct nftnl_set_elem *elem = nftnl_set_elem_alloc();
			nftnl_set_elem_set(elem, NFTNL_SET_ELEM_KEY, key, sizeof(key));
			nftnl_set_elem_set(elem, NFTNL_SET_ELEM_DATA, value, sizeof(value));
			nftnl_set_elem_add(set, elem);
		}
		struct nlmsghdr *nlh = nftnl_nlmsg_build_hdr(buf, NFT_MSG_NEWSETELEM, NFPROTO_IPV4,
							     NLM_F_CREATE, 1);
		nftnl_set_elems_nlmsg_build_payload(nlh, set);
		bytes = nlh->nlmsg_len;
		nftnl_set_free(set);
		clock_gettime(CLOCK_MONOTONIC, &end);
		times[run] = (end.tv_sec - start.tv_sec) * 1000000000L + (end.tv_nsec - start.tv_nsec);
	}
	qsort(times, RUNS, sizeof(times[0]), by_size);
	printf("{\"name\":\"libnftnl (C)\",\"ns\":%ld,\"allocations\":%lu,\"bytes\":%u}\n",
	       times[RUNS / 2], allocations - before, bytes);
	return 0;
}
