// A libmlx5 whose device deals QPs out to two ports of a LAG, as far as a program tells it nothing else.
#include <infiniband/verbs.h>

#include <errno.h>
#include <stdbool.h>

int fake_is_mlx5 = 1;
int fake_has_lag = 1;
int fake_error = 0; // of a change
int fake_keeps = 0; // a change succeeds and changes nothing
uint8_t fake_lag_port = 9;
int fake_source_port = 0;

bool mlx5dv_is_supported(struct ibv_device *device)
{
    (void)device;
    return fake_is_mlx5;
}

int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port, uint8_t *active)
{
    (void)qp;
    if (!fake_has_lag)
        return EOPNOTSUPP;
    *port = *active = fake_lag_port;
    return 0;
}

int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port)
{
    (void)qp;
    if (fake_error == 0 && !fake_keeps)
        fake_lag_port = port;
    return fake_error;
}

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t source_port)
{
    (void)qp;
    if (fake_error == 0)
        fake_source_port = source_port;
    return fake_error;
}
