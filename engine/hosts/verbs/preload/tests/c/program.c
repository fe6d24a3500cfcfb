// A verbs program that does what its first argument says; its status is 0 if all went as it does without tracing.
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access);

static struct ibv_pd domain;

static struct ibv_qp *new_qp(void)
{
    struct ibv_qp_init_attr wanted = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 128, .max_recv_wr = 16}};
    return ibv_create_qp(&domain, &wanted);
}

static int post(struct ibv_qp *qp, int count)
{
    struct ibv_send_wr *requests = calloc(count, sizeof *requests), *bad = NULL;
    struct ibv_sge sge[2] = {{.length = 100, .lkey = 7}, {.length = 28, .lkey = 7}};
    for (int i = 0; i < count; i++) {
        requests[i].next = i + 1 < count ? &requests[i + 1] : NULL;
        requests[i].opcode = IBV_WR_RDMA_WRITE;
        requests[i].sg_list = sge;
        requests[i].num_sge = 2;
        requests[i].wr.rdma.rkey = 9;
    }
    return ibv_post_send(qp, requests, &bad);
}

static int receive(struct ibv_qp *qp, int count)
{
    struct ibv_recv_wr *receives = calloc(count, sizeof *receives), *bad = NULL;
    struct ibv_sge sge = {.length = 4096, .lkey = 7};
    for (int i = 0; i < count; i++) {
        receives[i].next = i + 1 < count ? &receives[i + 1] : NULL;
        receives[i].sg_list = &sge;
        receives[i].num_sge = 1;
    }
    return ibv_post_recv(qp, receives, &bad);
}

extern int fake_meeting;
static pthread_mutex_t posting = PTHREAD_MUTEX_INITIALIZER;

static void *extended(void *qps)
{
    for (int i = 0; i < 8000; i++) {
        struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(((struct ibv_qp **)qps)[i]);
        pthread_mutex_lock(&posting);
        ibv_wr_start(qp);
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, 7, 0, 64);
        ibv_wr_complete(qp);
        pthread_mutex_unlock(&posting);
    }
    return NULL;
}

extern uint32_t fake_label;
extern int fake_refuses;

// Connects a QP; prints the flow label that the device saw, and fails if the program's own attributes changed.
static int connected(struct ibv_qp *qp)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_RTR, .dest_qp_num = 99}, before;
    wanted.ah_attr.is_global = 1;
    wanted.ah_attr.grh.sgid_index = 1;
    wanted.ah_attr.grh.dgid.raw[15] = 2;
    before = wanted;
    errno = 77;
    int status = ibv_modify_qp(qp, &wanted, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
    printf("%u\n", fake_label);
    return status || errno != 77 || memcmp(&wanted, &before, sizeof wanted);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    domain.context = ibv_open_device(NULL);
    if (!strcmp(what, "send"))
        return post(new_qp(), atoi(arguments[2])) == atoi(arguments[3]) ? 0 : 1;
    if (!strcmp(what, "receive"))
        return receive(new_qp(), atoi(arguments[2]));
    if (!strcmp(what, "many")) {
        static char memory[64];
        ibv_reg_mr(&domain, memory, sizeof memory, 0);
        for (int i = 0; i < atoi(arguments[2]); i++)
            post(new_qp(), 1);
        return 0;
    }
    if (!strcmp(what, "threads")) {
        static struct ibv_qp *qps[8000];
        pthread_t other;
        for (int i = 0; i < 8000; i++)
            qps[i] = new_qp();
        fake_meeting = 1;
        pthread_create(&other, NULL, extended, qps);
        extended(qps);
        pthread_join(other, NULL);
        return 0;
    }
    if (!strcmp(what, "connect") || !strcmp(what, "refused") || !strcmp(what, "closed")) {
        int failed = 0;
        fake_refuses = !strcmp(what, "refused");
        for (int i = 0; i < atoi(arguments[2]); i++) {
            struct ibv_qp *qp = new_qp();
            failed |= connected(qp);
            // As daemons do: whatever is open is not theirs to keep.
            for (int file = 3; file < 20 && !strcmp(what, "closed"); file++)
                close(file);
            ibv_destroy_qp(qp);
        }
        return failed;
    }
    if (!strcmp(what, "lag") || !strcmp(what, "no-lag") || !strcmp(what, "not-mlx5")) {
        // As libibverbs does with the libraries of devices.
        void *library = dlopen("libmlx5.so.1", RTLD_NOW);
        uint8_t *port = dlsym(library, "fake_lag_port");
        *(int *)dlsym(library, "fake_has_lag") = strcmp(what, "no-lag") != 0;
        *(int *)dlsym(library, "fake_is_mlx5") = strcmp(what, "not-mlx5") != 0;
        int failed = 0;
        for (int i = 0; i < atoi(arguments[2]); i++) {
            struct ibv_qp *qp = new_qp();
            struct ibv_qp_attr ready = {.qp_state = IBV_QPS_RTS};
            failed |= connected(qp);
            *port = 9;
            failed |= ibv_modify_qp(qp, &ready, IBV_QP_STATE);
            printf("%u\n", *port);
            ibv_destroy_qp(qp);
        }
        return failed;
    }
    if (!strcmp(what, "realpath"))
        return realpath("/", NULL) ? 0 : 1;
    if (!strcmp(what, "dlvsym")) {
        // As NCCL does: ours has to be found by whoever opens the library.
        void *library = dlopen("libibverbs.so.1", RTLD_NOW);
        void *found = dlvsym(library, "ibv_create_qp", "IBVERBS_1.1");
        return found && found == dlsym(RTLD_DEFAULT, "ibv_create_qp") ? 0 : 1;
    }
    return 2;
}
