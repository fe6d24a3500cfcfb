// A libibverbs with one QP on one device: what is posted on it is gone at once, as a program that reuses its memory has it.
#include <infiniband/verbs.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_reg_mr

// How many requests of a chain are taken.
static long room(void)
{
    const char *text = getenv("FAKE_ROOM");
    return text ? atol(text) : 1 << 20;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *chain, struct ibv_send_wr **bad)
{
    long taken = 0;
    (void)qp;
    while (chain) {
        struct ibv_send_wr *next = chain->next;
        if (taken++ == room()) {
            *bad = chain;
            return ENOMEM;
        }
        memset(chain, 0xa5, sizeof *chain);
        chain = next;
    }
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *chain, struct ibv_recv_wr **bad)
{
    (void)qp;
    (void)bad;
    while (chain) {
        struct ibv_recv_wr *next = chain->next;
        memset(chain, 0xa5, sizeof *chain);
        chain = next;
    }
    return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct verbs_context *context = calloc(1, sizeof *context);
    context->context.device = device;
    context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context->context.ops.post_send = post_send;
    context->context.ops.post_recv = post_recv;
    return &context->context;
}

static void wr_start(struct ibv_qp_ex *qp) { (void)qp; }
static int wr_complete(struct ibv_qp_ex *qp) { (void)qp; return 0; }
static void wr_send(struct ibv_qp_ex *qp) { (void)qp; }
static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t key, uint64_t address, uint32_t length)
{
    (void)qp, (void)key, (void)address, (void)length;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
    static uint32_t number;
    struct ibv_qp_ex *qp = calloc(1, sizeof *qp);
    qp->qp_base.context = pd->context;
    qp->qp_base.qp_type = wanted->qp_type;
    qp->qp_base.qp_num = ++number;
    qp->wr_start = wr_start;
    qp->wr_complete = wr_complete;
    qp->wr_send = wr_send;
    qp->wr_set_sge = wr_set_sge;
    return &qp->qp_base;
}

// Whether two threads meet here and go on at the same time.
int fake_meeting;
static atomic_int arrived;

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    if (fake_meeting) {
        int turn = atomic_fetch_add(&arrived, 1) / 2;
        for (int spins = 1; atomic_load(&arrived) < 2 * (turn + 1); spins++)
            if (spins % 1000 == 0)
                sched_yield();
    }
    return (struct ibv_qp_ex *)qp;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof *mr);
    (void)pd, (void)access;
    mr->addr = address;
    mr->length = length;
    mr->lkey = mr->rkey = 7;
    return mr;
}

// What the last modification asked for, and whether the next one fails if it asks for a flow label.
uint32_t fake_label;
int fake_refuses;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *wanted, int mask)
{
    (void)qp, (void)mask;
    if (fake_refuses && wanted->ah_attr.grh.flow_label)
        return EINVAL;
    fake_label = wanted->ah_attr.grh.flow_label;
    return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    free(qp);
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    (void)context, (void)port;
    memset(gid, 0, sizeof *gid);
    gid->raw[15] = index;
    return 0;
}
