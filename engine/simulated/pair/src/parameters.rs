//! The parameters of a model: all that Kelpie knows of each beside its value. What a row may hold is said in `row`.

mod row;

use std::ops::Bound::{Excluded, Included, Unbounded};

use Breakage::{Narrow, Serialised, Small};
use ParameterDomain::{Mtu, Real, Whole, Words};
use row::Number as _;
pub use row::{Breakage, DrawRange, Drawn, Fitted, ParameterDomain, ParameterRow, Range};

use crate::model::Model;

/// Keys of a model file that are no parameters, each with why.
pub const NO_PARAMETERS: [(&str, &str); 6] = [
    ("kelpie", "the version of the format"),
    ("name", "a name"),
    ("description", "text for people"),
    ("fixes", "values of parameters, which are checked when they are applied"),
    ("host.dram", "a list of NUMA nodes, whose number is checked beside the table"),
    ("host.gpus", "a list of GPUs, whose number is checked beside the table"),
];

macro_rules! perhaps {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! read {
    ($model:ident, $($part:ident).+) => { $model.$($part).+.number() };
    ($model:ident, $($part:ident).+, $get:expr) => { ($get as fn(&Model) -> Option<f64>)($model) };
}

macro_rules! rows {
    ($($parameter:ident: $first:ident $(. $rest:ident)+ $(by $get:expr)?,
        $unit:literal, $domain:expr, $fitted:expr, $drawn:expr $(, $broken:ident)?;)*) => {
        /// A parameter of a model.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is documented by its field of the model, and by its row of the table")]
        pub enum Parameter {
            $($parameter,)*
        }

        /// Every parameter, in the order of [`Parameter`], which is that of a model file.
        pub const TABLE: &[ParameterRow] = &[$(ParameterRow {
            parameter: Parameter::$parameter,
            path: concat!(stringify!($first) $(, ".", stringify!($rest))+),
            unit: $unit,
            domain: $domain,
            fitted: $fitted,
            drawn: $drawn,
            broken: perhaps!($($broken)?),
            get: |model| read!(model, $first$(.$rest)+ $(, $get)?),
        },)*];
    };
}

const OUR_CHOICE: &str = "our choice";

/// Rates and sizes between which any real one lies, whatever its unit.
const LIKELY: ParameterDomain = Real(Range {
    ends: (Included(1e-3), Included(1e9)),
    refusal: |value| format!("{value:?} is outside 0.001 to 1e9"),
    source: "our choice: any real one lies there, whatever its unit",
});
const TIME: ParameterDomain = Real(Range {
    ends: (Included(0.0), Excluded(1e9)),
    refusal: |value| format!("{value} must be a time from 0 to below 1e9"),
    source: OUR_CHOICE,
});
const TIMER: ParameterDomain = Real(Range {
    ends: (Included(4.096), Excluded(1e9)),
    refusal: |value| format!("{value} must be from 4.096 to below 1e9"),
    source: "IBTA volume 1, section 9.9.2.1.1: the shortest timer",
});
const SHARE: ParameterDomain = Real(Range {
    ends: (Included(0.0), Included(1.0)),
    refusal: |value| format!("{value} must be from 0 to 1"),
    source: "a share",
});
const PRECISION: ParameterDomain = Real(Range {
    ends: (Excluded(0.0), Included(1.0)),
    refusal: |value| format!("{value} must be above 0 and at most 1"),
    source: "a share; rates are never known for certain",
});
const CACHE: ParameterDomain = Real(Range {
    ends: (Excluded(0.0), Included(1_048_576.0)),
    refusal: |value| format!("{value} KiB: a cache must hold something, and at most 1,048,576 KiB"),
    source: "our choice, a gigabyte, far more than any has",
});
const WAYS: ParameterDomain = Whole(Range {
    ends: (Included(1.0), Included(1024.0)),
    refusal: |value| format!("{value} ways: a set must have 1 to 1,024 lines"),
    source: OUR_CHOICE,
});
const PAYLOAD: ParameterDomain = Whole(Range {
    ends: (Included(64.0), Included(1_048_576.0)),
    refusal: |value| format!("{value} must be from 64 to 1,048,576"),
    source: "our choice, around the 128 to 4096 of the PCIe base specification",
});
const OVERHEAD: ParameterDomain = Whole(Range {
    ends: (Included(0.0), Included(4096.0)),
    refusal: |value| format!("{value} must be within what a NIC could have"),
    source: OUR_CHOICE,
});
const EVENTS: ParameterDomain = Whole(Range {
    ends: (Included(1000.0), Included(4_294_967_296.0)),
    refusal: |value| format!("{value} must be from 1,000 to 2^32"),
    source: "our choice: an experiment ends, and not at once",
});
const ANY: ParameterDomain =
    Whole(Range { ends: (Included(0.0), Unbounded), refusal: |value| value.to_string(), source: "any has a meaning" });
const TRUTH: ParameterDomain = Words(&["false", "true"]);
const REPLACEMENT: ParameterDomain = Words(&["least_recent", "random"]);

/// A count from 1 to `most`.
const fn count(most: u64) -> ParameterDomain {
    Whole(Range {
        ends: (Included(1.0), Included(most as f64)),
        refusal: |value| format!("{value} must be above zero and within what a NIC could have"),
        source: "our choice, more than any NIC has",
    })
}

const fn fit(turn: u8, phrase: &'static str) -> Fitted {
    Fitted::Yes { turn, phrase }
}

const fn draw(low: f64, high: f64, source: &'static str) -> DrawRange {
    DrawRange { low, high, source }
}

const fn alone(low: f64, high: f64, source: &'static str) -> Drawn {
    Drawn::Alone(draw(low, high, source))
}

const fn either(turn: u8, first: &'static str, second: &'static str) -> Drawn {
    Drawn::Either { turn, words: [first, second] }
}

// Why a parameter is not fitted.
const WORD: Fitted = Fitted::No("a word, which a fit cannot move");
const UNSEEN: Fitted = Fitted::No("simple traffic does not show it");
const SUM: Fitted = Fitted::No("it only shows in sums with others");
const COVERS: Fitted = Fitted::No("its value covers the rates of healthy NICs");
const METHOD: Fitted = Fitted::No("how experiments are run, and not what a NIC has");

// Why a parameter is not drawn.
const AS_F: Drawn = Drawn::No("as on F, whose structure all have");
const ABSENT: Drawn = Drawn::No("F has none");
const RUN: Drawn = Drawn::No("how experiments are run, and not what a NIC has");

// Half a generation of NICs less than F, and most of one more: as calibrated NICs that do not exist.
const AROUND_F: &str = "F's value times 0.6 to 1.6, our choice as for calibrated NICs";
const F_AND_H: &str = "between the models F and H";
const MESSAGES: &str = "published measurements, sources 1 and 2";
const READ: &str = "F; Neugebauer et al., SIGCOMM 2018";

rows! {
    LineRate: port.line_rate_gbps, "Gbit/s", LIKELY, fit(0, "line rate"), Drawn::WithPort;
    MaxMpps: port.max_mpps, "Mpackets/s", LIKELY, fit(2, "packet rate of the port"), alone(118.0, 155.0, MESSAGES);
    LinkDelay: port.link_delay_ns, "ns", TIME, fit(4, "delay of the wire"), alone(180.0, 480.0, AROUND_F);
    ForceMtu: port.force_mtu, "bytes", Mtu, UNSEEN, AS_F;
    SwitchXoff: switch.xoff_kib, "KiB", LIKELY, UNSEEN, AS_F;
    SwitchXon: switch.xon_kib, "KiB", LIKELY, UNSEEN, AS_F;
    Trunk: bond.trunk_gbps by |model| model.bond.as_ref()?.trunk_gbps.number(), "Gbit/s", LIKELY, UNSEEN, ABSENT;
    HashSeed: bond.hash_seed by |model| model.bond.as_ref()?.hash_seed.number(), "", ANY, UNSEEN, ABSENT;
    Cores: posting.cores, "", count(4096), Fitted::No("a row of a table says how many post"), AS_F;
    Doorbell: posting.doorbell_ns, "ns", TIME, fit(10, "posting, each call"),
        alone(60.0, 180.0, "F; published measurements, sources 5 and 6");
    PostedWqe: posting.wqe_ns, "ns", TIME, fit(11, "posting, each work request"), alone(5.0, 13.0, AROUND_F);
    Poll: posting.poll_ns, "ns", TIME, SUM, AS_F;
    SignalDivisor: posting.signal_divisor, "", count(1 << 20), METHOD, AS_F;
    Units: processing.units, "", count(4096), COVERS, AS_F;
    Slots: processing.slots, "", count(4096), COVERS, AS_F;
    TurnPackets: processing.turn_packets, "", count(1 << 20), UNSEEN, Drawn::ByContexts([
        draw(16.0, 64.0, "F's value to a quarter of that, our choice"),
        draw(1.0, 4.0, "H's value to four times that, our choice"),
    ]);
    Wqe: processing.wqe_ns, "ns", TIME, fit(6, "unit, each work request"), alone(12.0, 32.0, AROUND_F);
    Segment: processing.segment_ns, "ns", TIME, SUM, AS_F;
    Packet: processing.packet_ns, "ns", TIME, fit(5, "unit, each packet sent"), alone(13.0, 35.0, AROUND_F);
    ReceivePacket: processing.receive_packet_ns, "ns", TIME, fit(7, "unit, each packet received"),
        alone(15.0, 40.0, AROUND_F);
    ReceiveMessage: processing.receive_message_ns, "ns", TIME, SUM, AS_F;
    ResponsePacket: processing.response_packet_ns, "ns", TIME, SUM, AS_F;
    ResponseKib: processing.response_kib_ns, "ns", TIME, fit(8, "KiB of a READ response"), alone(28.0, 75.0, AROUND_F);
    PipelinePacket: processing.pipeline_packet_ns, "ns", TIME, fit(9, "pipeline, each packet"), AS_F, Serialised;
    PipelineKib: processing.pipeline_kib_ns, "ns", TIME, UNSEEN, AS_F;
    PipelineStates: processing.pipeline_states, "", count(64), UNSEEN, AS_F;
    PipelineSwitch: processing.pipeline_switch_ns, "ns", TIME, UNSEEN, AS_F;
    Staging: processing.staging_kib, "KiB", LIKELY, UNSEEN, AS_F;
    PacketMemory: processing.packet_memory_kib, "KiB", LIKELY, UNSEEN, ABSENT;
    MaxReads: processing.max_reads, "", count(1024), fit(12, "READs on their way per QP"), AS_F;
    Contexts: caches.contexts.kib, "KiB", CACHE, fit(14, "cache of QP contexts"), Drawn::ByContexts([
        draw(128.0, 512.0, "F's value to four times that, our choice"),
        draw(1024.0, 4096.0, "H's value to a quarter of that, our choice"),
    ]), Small;
    ContextsWays: caches.contexts.ways, "", WAYS, UNSEEN, AS_F;
    ContextsReplacement: caches.contexts.replacement, "", REPLACEMENT, WORD, AS_F;
    Translations: caches.translations.kib, "KiB", CACHE, fit(15, "cache of translations"),
        alone(922.0, 2458.0, AROUND_F), Small;
    TranslationsWays: caches.translations.ways, "", WAYS, UNSEEN, AS_F;
    TranslationsReplacement: caches.translations.replacement, "", REPLACEMENT, WORD, AS_F;
    SendWqes: caches.send_wqes.kib, "KiB", CACHE, UNSEEN, alone(307.0, 819.0, AROUND_F), Small;
    SendWqesWays: caches.send_wqes.ways, "", WAYS, UNSEEN, AS_F;
    SendWqesReplacement: caches.send_wqes.replacement, "", REPLACEMENT, WORD, AS_F;
    ReceiveWqes: caches.receive_wqes.kib, "KiB", CACHE, UNSEEN, alone(614.0, 1638.0, AROUND_F), Small;
    ReceiveWqesWays: caches.receive_wqes.ways, "", WAYS, UNSEEN, AS_F;
    ReceiveWqesReplacement: caches.receive_wqes.replacement, "", REPLACEMENT, WORD, AS_F;
    ReceiveChains: caches.receive_chains.kib, "KiB", CACHE, UNSEEN, AS_F;
    ReceiveChainsWays: caches.receive_chains.ways, "", WAYS, UNSEEN, AS_F;
    ReceiveChainsReplacement: caches.receive_chains.replacement, "", REPLACEMENT, WORD, AS_F;
    ReadLists: caches.read_lists.kib, "KiB", CACHE, UNSEEN, alone(24.0, 104.0, F_AND_H), Small;
    ReadListsWays: caches.read_lists.ways, "", WAYS, UNSEEN, AS_F;
    ReadListsReplacement: caches.read_lists.replacement, "", REPLACEMENT, WORD, AS_F;
    RingPages: caches.ring_pages.kib, "KiB", CACHE, UNSEEN, alone(0.5, 1.5, F_AND_H);
    RingPagesWays: caches.ring_pages.ways, "", WAYS, UNSEEN, AS_F;
    RingPagesReplacement: caches.ring_pages.replacement, "", REPLACEMENT, WORD, AS_F;
    ContextTables: caches.context_tables, "", count(64), UNSEEN, Drawn::OfContexts([4.0, 1.0]);
    ContextLines: caches.context_lines, "64 bytes", count(64), UNSEEN, Drawn::OfContexts([2.0, 8.0]);
    ReceiveEntryRc: caches.receive_entry_bytes.RC by |model| model.caches.receive_entry_bytes.rc.number(),
        "bytes", count(4096), UNSEEN, AS_F;
    ReceiveEntryUc: caches.receive_entry_bytes.UC by |model| model.caches.receive_entry_bytes.uc.number(),
        "bytes", count(4096), UNSEEN, AS_F;
    ReceiveEntryUd: caches.receive_entry_bytes.UD by |model| model.caches.receive_entry_bytes.ud.number(),
        "bytes", count(4096), UNSEEN, AS_F;
    PushedLines: fetch.pushed_lines, "64 bytes", ANY, UNSEEN, either(2, "0", "4");
    WqeLines: fetch.wqe_lines, "64 bytes", count(64), UNSEEN, AS_F;
    SendAheadLines: fetch.send_ahead_lines, "64 bytes", count(1 << 20), UNSEEN, AS_F;
    ReceiveAheadLines: fetch.receive_ahead_lines, "64 bytes", count(1 << 16), UNSEEN, alone(4.0, 24.0, F_AND_H);
    InlineReceives: fetch.inline_receives, "", count(u32::MAX as u64), UNSEEN, alone(48.0, 512.0, F_AND_H);
    ChainWqes: fetch.chain_wqes, "", count(u32::MAX as u64), UNSEEN, either(1, "63", "1000000");
    ChainLines: fetch.chain_lines, "64 bytes", count(1 << 20), UNSEEN, AS_F;
    ReceiveDemandLines: fetch.receive_demand_lines, "64 bytes", count(64), UNSEEN, AS_F;
    ReadListLines: fetch.read_list_lines, "64 bytes", count(64), UNSEEN, AS_F;
    SendMisses: fetch.send_misses, "", count(1 << 20), fit(13, "reads of missing lines on their way"),
        Drawn::ByContexts([
            draw(4.0, 16.0, "F's value to four times that, our choice"),
            draw(16.0, 32.0, "H's value to half of that, our choice"),
        ]), Narrow;
    TranslationMisses: fetch.translation_misses, "", count(1 << 20), UNSEEN, alone(29.0, 77.0, AROUND_F);
    ReceiveMisses: fetch.receive_misses, "", count(1 << 20), UNSEEN, alone(38.0, 102.0, AROUND_F), Narrow;
    ReceiveWqeMisses: fetch.receive_wqe_misses, "", count(1 << 20), UNSEEN, AS_F, Narrow;
    ChainMisses: fetch.chain_misses, "", count(1 << 20), UNSEEN, AS_F;
    RingPageMisses: fetch.ring_page_misses, "", count(1 << 20), UNSEEN, AS_F;
    ReadListMisses: fetch.read_list_misses, "", count(1 << 20), UNSEEN, alone(3.0, 5.0, F_AND_H), Narrow;
    WhenBusy: fetch.when_busy, "", Words(&["wait", "refuse"]), WORD, either(0, "refuse", "wait");
    Xoff: receive.xoff_kib, "KiB", LIKELY, fit(16, "PFC threshold XOFF, with XON"),
        Drawn::From("receive.xoff_kib, with xon and capacity", draw(115.0, 307.0, AROUND_F));
    Xon: receive.xon_kib, "KiB", LIKELY, Fitted::Along(Parameter::Xoff), Drawn::Along(Parameter::Xoff);
    Capacity: receive.capacity_kib, "KiB", LIKELY, Fitted::Along(Parameter::Xoff), Drawn::Along(Parameter::Xoff);
    Loopback: receive.loopback_kib, "KiB", LIKELY, UNSEEN, AS_F;
    ReceiveSlots: receive.slots, "", count(1 << 20), COVERS, AS_F;
    RnrTimer: receive.rnr_timer_us, "µs", TIME, UNSEEN, AS_F;
    Firmware: control.firmware_us, "µs", TIME, UNSEEN, AS_F;
    Hold: control.hold_us, "µs", TIME, UNSEEN, AS_F;
    AckTimeout: control.ack_timeout_us, "µs", TIMER, UNSEEN, AS_F;
    Pcie: pcie.gbps, "Gbit/s", LIKELY, fit(1, "PCIe bandwidth"), Drawn::WithPort;
    LinkLatency: pcie.link_latency_ns, "ns", TIME, fit(3, "PCIe latency, with memory"),
        Drawn::From("pcie read, with memory (ns)", draw(500.0, 900.0, READ));
    TlpOverhead: pcie.tlp_overhead_bytes, "bytes", OVERHEAD, UNSEEN, AS_F;
    MaxPayload: pcie.max_payload_bytes, "bytes", PAYLOAD, UNSEEN, AS_F;
    MaxReadRequest: pcie.max_read_request_bytes, "bytes", PAYLOAD, UNSEEN, AS_F;
    Tags: pcie.tags, "", count(1 << 20), COVERS, AS_F;
    WriteCredit: pcie.write_credit_kib, "KiB", LIKELY, UNSEEN, alone(32.0, 128.0, F_AND_H);
    Ordering: pcie.ordering, "", Words(&["strict", "relaxed"]), WORD, either(3, "strict", "relaxed");
    SleepAfter: pcie.sleep.after_us by |model| model.pcie.sleep.as_ref()?.after_us.number(),
        "µs", TIME, UNSEEN, ABSENT;
    SleepWake: pcie.sleep.wake_us by |model| model.pcie.sleep.as_ref()?.wake_us.number(),
        "µs", TIME, UNSEEN, ABSENT;
    Memory: host.memory_gbps, "Gbit/s", LIKELY, UNSEEN, AS_F;
    MemoryLatency: host.memory_latency_ns, "ns", TIME, Fitted::Along(Parameter::LinkLatency),
        Drawn::Along(Parameter::LinkLatency);
    PartialLine: host.partial_line_ns, "ns", TIME, UNSEEN, AS_F;
    Interconnect: host.interconnect_gbps, "Gbit/s", LIKELY, UNSEEN,
        Drawn::From("host.interconnect_gbps over the line rate", draw(1.2, 1.5, F_AND_H));
    InterconnectLatency: host.interconnect_latency_ns, "ns", TIME, UNSEEN,
        alone(50.0, 100.0, "Neugebauer et al., SIGCOMM 2018: 105 ns both ways; F");
    RemoteMemory: host.remote_memory_gbps, "Gbit/s", LIKELY, UNSEEN,
        Drawn::From("host.remote_memory_gbps over the line rate", draw(1.8, 3.0, F_AND_H));
    NicPerSocket: host.nic_per_socket, "", TRUTH, WORD, AS_F;
    AcsRedirect: host.acs_redirect, "", TRUTH, WORD, either(4, "true", "false");
    RedirectRead: host.redirect_read_gbps, "Gbit/s", LIKELY, UNSEEN, AS_F;
    RedirectWrite: host.redirect_write_gbps, "Gbit/s", LIKELY, UNSEEN, AS_F;
    SampleUs: sampling.sample_us, "µs of simulated time", LIKELY, METHOD, RUN;
    Samples: sampling.samples, "", count(100), METHOD, RUN;
    Precision: sampling.precision, "", PRECISION, METHOD, RUN;
    VerdictPackets: sampling.verdict_packets, "", ANY, METHOD, RUN;
    MaxEvents: sampling.max_events, "", EVENTS, METHOD, RUN;
    Seed: sampling.seed, "", ANY, METHOD, RUN;
    Noise: sampling.noise, "", SHARE, METHOD, RUN;
}

#[cfg(test)]
mod tests;
