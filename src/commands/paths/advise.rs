//! `kelpie paths advise`: what to set in communication libraries so that they use both ports where nothing steers.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::json;

use crate::args::Common;
use crate::cli::paths::{AdviseArgs, CommLibrary, LagMode};
use crate::exit;
use crate::output::{print, print_json};

/// A setting with its reason.
struct SettingAdvice {
    name: &'static str,
    value: &'static str,
    because: &'static str,
    source: &'static str,
}

const NCCL: [SettingAdvice; 3] = [
    SettingAdvice {
        name: "NCCL_IB_QPS_PER_CONNECTION",
        value: "8",
        because: "one QP uses one port; of eight, hashed, about every other connection has three or more on each port",
        source: "NCCL environment variables, NCCL_IB_QPS_PER_CONNECTION; NCCL issue 1015",
    },
    SettingAdvice {
        name: "NCCL_IB_SPLIT_DATA_ON_QPS",
        value: "1",
        because: "without it messages go to QPs in turn, and small ones leave a port idle",
        source: "NCCL environment variables, NCCL_IB_SPLIT_DATA_ON_QPS",
    },
    SettingAdvice {
        name: "NCCL_IB_TC",
        value: "the traffic class of your lossless queue, such as 106",
        because: "both ports have to be lossless for the same class; `kelpie doctor --traffic-class` checks it",
        source: "NCCL environment variables, NCCL_IB_TC",
    },
];

const UCX: [SettingAdvice; 3] = [
    SettingAdvice {
        name: "UCX_IB_NUM_PATHS",
        value: "2",
        because: "one path uses one port; UCX opens a QP per path",
        source: "UCX, `ucx_info -cf`, UCX_IB_NUM_PATHS; UCX issue 10430",
    },
    SettingAdvice {
        name: "UCX_IB_ROCE_PATH_FACTOR",
        value: "1",
        because: "the source ports of the paths then differ by one each, so that most hashes tell them apart",
        source: "UCX, `ucx_info -cf`, UCX_IB_ROCE_PATH_FACTOR",
    },
    SettingAdvice {
        name: "UCX_IB_TRAFFIC_CLASS",
        value: "the traffic class of your lossless queue, such as 106",
        because: "both ports have to be lossless for the same class; `kelpie doctor --traffic-class` checks it",
        source: "UCX, `ucx_info -cf`, UCX_IB_TRAFFIC_CLASS",
    },
];

/// Runs the command.
pub fn run(args: &AdviseArgs, common: Common) -> anyhow::Result<ExitCode> {
    let (applies, remark) = match (args.ports, args.mode) {
        (1, _) => (false, "one port: there is nothing to spread over"),
        (_, LagMode::ActiveBackup) => (false, "active-backup uses one port at a time: nothing can be steered"),
        (_, LagMode::Hash) => (true, "the source port decides by which port a QP leaves, and at which it arrives"),
        (_, LagMode::QueueAffinity) => (
            true,
            "the driver deals QPs out to ports and source ports do not change that: many QPs may meet on one port \
             (NCCL pull request 2315). Compare the bytes of both ports under load. The source port still decides at \
             which port of the receiver a QP arrives",
        ),
    };
    let advice: &[SettingAdvice] = match args.library {
        _ if !applies => &[],
        CommLibrary::Nccl => &NCCL,
        CommLibrary::Ucx => &UCX,
    };
    if common.json {
        let row = |one: &SettingAdvice| json!({"name": one.name, "value": one.value, "because": one.because, "source": one.source});
        let rows: Vec<_> = advice.iter().map(row).collect();
        print_json(&json!({"applies": applies, "remark": remark, "settings": rows}))?;
        return Ok(exit::HEALTHY);
    }
    let mut text = format!("{remark}\n");
    for one in advice {
        let _ = writeln!(text, "\n{}={}\n  {}\n  Source: {}", one.name, one.value, one.because, one.source);
    }
    print(&text)?;
    Ok(exit::HEALTHY)
}
