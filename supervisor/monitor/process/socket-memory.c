/* The memory of a network namespace's sockets. */
#include "supervisor/monitor/process/socket-memory.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

struct found {
        uint64_t bytes, n;
};

static void add_socket(struct found *found, const struct rtattr *attribute, int left, int type)
{
        uint32_t m[SK_MEMINFO_VARS] = {};

        while (RTA_OK(attribute, left) && attribute->rta_type != type)
                attribute = RTA_NEXT(attribute, left);
        if (!RTA_OK(attribute, left))
                return; /* a connection that has ended has no buffers */
        size_t n = RTA_PAYLOAD(attribute);
        memcpy(m, RTA_DATA(attribute), n < sizeof(m) ? n : sizeof(m));
        /* WMEM_ALLOC of TCP is a part of WMEM_QUEUED. */
        uint32_t sent = m[SK_MEMINFO_WMEM_QUEUED] > m[SK_MEMINFO_WMEM_ALLOC]
                                ? m[SK_MEMINFO_WMEM_QUEUED]
                                : m[SK_MEMINFO_WMEM_ALLOC];
        found->bytes += (uint64_t)m[SK_MEMINFO_RMEM_ALLOC] + sent + m[SK_MEMINFO_FWD_ALLOC] +
                        m[SK_MEMINFO_BACKLOG];
        found->n++;
}

/* Returns false at the end of the list. */
static bool read_part(int fd, size_t head, int type, struct found *found)
{
        _Alignas(struct nlmsghdr) char text[32 * 1024];
        ssize_t size = recv(fd, text, sizeof(text), 0);
        unsigned int left = size > 0 ? (unsigned int)size : 0;

        for (struct nlmsghdr *h = (void *)text; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
                int rest = (int)h->nlmsg_len - (int)NLMSG_SPACE(head);
                if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY)
                        return false;
                if (rest > 0)
                        add_socket(found,
                                   (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(head)),
                                   rest, type);
        }
        return size > 0;
}

static void list(int fd, const void *request, size_t size, size_t head, int type,
                 struct found *found)
{
        _Alignas(struct nlmsghdr) char text[128];
        const struct nlmsghdr h = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(size),
                                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};

        memcpy(text, &h, sizeof(h));
        memcpy(text + NLMSG_HDRLEN, request, size);
        if (send(fd, text, h.nlmsg_len, 0) < 0)
                return;
        while (read_part(fd, head, type, found))
                ;
}

uint64_t socket_memory(int pidfd, uint64_t used)
{
        struct found found = {};
        struct unix_diag_req unix_all = {
                .sdiag_family = AF_UNIX, .udiag_states = ~0U, .udiag_show = UDIAG_SHOW_MEMINFO};

        if (setns(pidfd, CLONE_NEWUSER | CLONE_NEWNET) < 0)
                return used * SOCKET_MEMORY_MOST;
        _cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        for (int i = 0; fd >= 0 && i < 4; i++) {
                const struct inet_diag_req_v2 all = {.sdiag_family = i % 2 ? AF_INET6 : AF_INET,
                                                     .sdiag_protocol = i < 2 ? IPPROTO_TCP
                                                                             : IPPROTO_UDP,
                                                     .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
                                                     .idiag_states = ~0U};
                list(fd, &all, sizeof(all), sizeof(struct inet_diag_msg), INET_DIAG_SKMEMINFO,
                     &found);
        }
        if (fd >= 0)
                list(fd, &unix_all, sizeof(unix_all), sizeof(struct unix_diag_msg),
                     UNIX_DIAG_MEMINFO, &found);
        return found.bytes + (used > found.n ? (used - found.n) * SOCKET_MEMORY_UNLISTED : 0);
}
