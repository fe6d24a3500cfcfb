//! Workloads of AICB, which `SimAI`'s simulator runs: of each layer what is computed and communicated, forwards and
//! backwards.
//!
//! Source: `SimAI` v1.6, `HYBRID_TRANSFORMER_FWD_IN_BCKWD` and files with twelve columns. There the communication of
//! weight gradients may overlap with the layers before; here each step follows the one before.

use kelpie_collectives::program::{AlgorithmName, GroupKind, Program, Programs, Step};
use kelpie_spaces::Bytes;

use crate::peer::{PeerError, Words};

/// The first word of such a file.
pub const TAG: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";
/// Most layers. Source: our choice.
const MOST_LAYERS: usize = 1 << 16;

/// Reads a workload for a fabric of so many GPUs.
///
/// # Errors
/// Names the line of what is not understood, or not defined there.
pub fn read(file: &str, text: &str, gpus: u32) -> Result<Programs, PeerError> {
    let (first, _) = text.split_once('\n').unwrap_or((text, ""));
    let mut words = Words::new(file, text);
    let head: Vec<&str> = first.split_whitespace().collect();
    let mut values = std::collections::HashMap::new();
    for _ in &head {
        words.word("the first line")?;
    }
    for pair in head[1.min(head.len())..].windows(2) {
        if let Some(name) = pair[0].strip_suffix(':') {
            values.insert(name, pair[1]);
        }
    }
    let number = |name: &str| -> Result<u32, PeerError> {
        let value = values.get(name).and_then(|value| value.parse().ok()).filter(|value: &u32| *value >= 1);
        value.ok_or_else(|| words.wrong(&format!("`{name}:` with a number from 1 should stand in the first line")))
    };
    let (tensor, expert, pipeline, all) =
        (number("model_parallel_NPU_group")?, number("ep")?, number("pp")?, number("all_gpus")?);
    let rounds = number("ga")?;
    if pipeline > 1 {
        return Err(
            words.wrong("pp above 1: the file does not say what stages send each other; write job/1 with `send`")
        );
    }
    if all > gpus || !all.is_multiple_of(tensor.saturating_mul(expert)) {
        return Err(
            words.wrong(&format!("all_gpus: {all} GPUs in groups of {tensor} x {expert}, on a fabric of {gpus}"))
        );
    }
    let layers = words.below("the number of layers", MOST_LAYERS)?;
    let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
    for _ in 0..layers {
        words.word("a layer's name")?;
        words.word("a layer's dependency")?;
        let forward = pass(&mut words, GroupKind::Tensor)?;
        let input = pass(&mut words, GroupKind::Tensor)?;
        let weight = pass(&mut words, GroupKind::Data)?;
        words.word("a layer's processing time")?;
        forwards.extend(forward);
        backwards.push([input, weight].concat());
    }
    let mut steps = forwards;
    steps.extend(backwards.into_iter().rev().flatten());
    if steps.is_empty() {
        return Err(words.wrong("no layer computes or communicates"));
    }
    let program = Program {
        name: "aicb".to_owned(),
        first_gpu: 0,
        gpus: Some(all),
        tensor,
        expert,
        pipeline,
        start_us: 0.0,
        iterations: rounds,
        send_us: 0.0,
        steps,
    };
    Ok(Programs { programs: vec![program], ..Programs::default() })
}

/// Three columns: time of computing, communication, its size.
fn pass(words: &mut Words<'_>, usual: GroupKind) -> Result<Vec<Step>, PeerError> {
    let nanos: f64 = words.number("a time in ns")?;
    let name = words.word("a communication")?;
    let kind = |words: &Words<'_>| {
        let (op, group) = name.split_once('_').unwrap_or((name, ""));
        let group = match group {
            "" => usual,
            "EP" => GroupKind::Expert,
            "DP_EP" => GroupKind::ExpertData,
            _ => return Err(words.wrong("a group of a communication is EP or DP_EP")),
        };
        Ok((op, group))
    };
    let (op, group) = kind(words)?;
    let bytes = Some(Bytes(words.number("a size in bytes")?));
    let mut steps = Vec::new();
    // A ns stands for nothing there.
    if nanos > 1.0 {
        steps.push(Step { compute_us: Some(nanos / 1e3), ..Step::default() });
    }
    let step = Step { group, algorithm: AlgorithmName::Auto, ..Step::default() };
    steps.extend(match op {
        "NONE" => None,
        _ if bytes == Some(Bytes(0)) => None,
        "ALLREDUCE" => Some(Step { all_reduce: bytes, ..step }),
        "ALLGATHER" => Some(Step { all_gather: bytes, ..step }),
        "REDUCESCATTER" => Some(Step { reduce_scatter: bytes, ..step }),
        "ALLTOALL" => Some(Step { all_to_all: bytes, ..step }),
        _ => return Err(words.wrong("a communication is NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL")),
    });
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 3 all_gpus: 8 \
                        checkpoints: 0 checkpoint_initiates: 0\n2\n\
                        embedding -1 556000 ALLREDUCE 16 1 NONE 0 1 NONE 0 1\n\
                        moe -1 1 ALLTOALL_EP 32 2000 REDUCESCATTER 8 1 ALLGATHER_DP_EP 64 1\n";

    #[test]
    fn layers_go_forwards_then_backwards() {
        let programs = read("w", HEAD, 8).expect("valid");
        let program = &programs.programs[0];
        let words: Vec<String> = program.steps.iter().map(Step::words).collect();
        assert_eq!(
            words,
            [
                "compute 556 µs",
                "all_reduce 16B tensor",
                "all_to_all 32B expert",
                "compute 2 µs",
                "reduce_scatter 8B tensor",
                "all_gather 64B expert-data"
            ]
        );
        assert_eq!((program.tensor, program.expert, program.iterations), (2, 2, 3));
    }

    #[test]
    fn what_the_file_leaves_open_is_an_error_with_its_line() {
        for (text, expected) in [
            (HEAD.replace("pp: 1", "pp: 4"), "w:1: pp above 1"),
            (HEAD.replace("all_gpus: 8", "all_gpus: 16"), "w:1: all_gpus: 16 GPUs"),
            (HEAD.replace("ALLTOALL_EP", "ALLTOALL_TP"), "w:4: a group of a communication"),
            (HEAD.replace("REDUCESCATTER", "SCATTER"), "w:4: a communication is NONE"),
            (HEAD.replace(" 64 1\n", "\n"), "w:4: the file ends where"),
            (HEAD.replace("ga: 3", ""), "w:1: `ga:` with a number"),
        ] {
            let error = read("w", &text, 8).expect_err(&text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
