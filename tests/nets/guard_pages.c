/* Memory of tensors with a page behind it, and one before it, that nobody may touch: who reads or writes outside ends at once.
 *
 * torch asks posix_memalign for every tensor. Preloaded, and once switched on, this answers from a region of its own: each piece ends where
 * a forbidden page begins (but for the bytes that fill up its alignment, which hold a pattern that free() compares), and its pages are
 * forbidden again when it is freed. Larger pieces than LARGEST, and those of other functions, come from the C library as ever.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define REGION (16ul << 30)
#define LARGEST (64ul << 20)
#define ALIGNED 16ul
#define PATTERN 0xC7

static char *region, *next_free;
static int on;
static unsigned char content = 0x5B; /* of memory that nobody has written yet */

static int (*real_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);

struct head { size_t bytes, pages; char *data; };

__attribute__((constructor)) static void find(void) {
    real_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void guard_pages_on(int wanted, int filled_with) {
    if (!region) {
        region = mmap(0, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) abort();
        next_free = region;
    }
    content = (unsigned char)filled_with;
    on = wanted;
}

/* A piece: its head on a page of its own, a forbidden page, the data's pages, a forbidden page. */
int posix_memalign(void **out, size_t alignment, size_t bytes) {
    if (!on || alignment > 64 || bytes == 0 || bytes > LARGEST) return real_memalign(out, alignment, bytes);
    size_t pages = (bytes + PAGE - 1) / PAGE;
    if (next_free + (pages + 3) * PAGE > region + REGION) return ENOMEM;
    struct head *head = (struct head *)next_free;
    char *first = next_free + 2 * PAGE, *end = first + pages * PAGE;
    next_free = end + PAGE;
    if (mprotect(head, PAGE, PROT_READ | PROT_WRITE) || mprotect(first, pages * PAGE, PROT_READ | PROT_WRITE)) return ENOMEM;
    head->bytes = bytes;
    head->pages = pages;
    head->data = (char *)((uintptr_t)(end - bytes) & ~(ALIGNED - 1));
    memset(first, PATTERN, pages * PAGE);
    memset(head->data, content, bytes);
    *out = head->data;
    return 0;
}

static int holds_pattern(const char *from, const char *to) {
    for (; from < to; from++) if ((unsigned char)*from != PATTERN) return 0;
    return 1;
}

void free(void *data) {
    if (!region || (char *)data < region || (char *)data >= region + REGION) {
        real_free(data);
        return;
    }
    char *page = (char *)((uintptr_t)data & ~(PAGE - 1));
    struct head *head = (struct head *)(page - 2 * PAGE);
    char *first = page, *end = first + head->pages * PAGE;
    if (head->data != data || !holds_pattern(first, data) || !holds_pattern((char *)data + head->bytes, end)) {
        static const char words[] = "guard_pages: written outside of a tensor\n";
        if (write(2, words, sizeof words - 1)) {}
        abort();
    }
    madvise(first, head->pages * PAGE, MADV_DONTNEED);
    mprotect(first, head->pages * PAGE, PROT_NONE);
    madvise(head, PAGE, MADV_DONTNEED);
    mprotect(head, PAGE, PROT_NONE);
}
