//! The table of checks: what each measures, what it costs, when it warns, and what repairs it. Who looks is elsewhere;
//! what a row may hold is said in `row`.

mod row;

pub use row::{Better, CheckCost, CheckGroup, CheckRow, GaugeRow};

use Better::{Higher, Lower, Neither};
use CheckCost::{Files, Minutes, Seconds};
use CheckGroup::{Host, Inside, Pair, Ports};

macro_rules! rows {
    ($($kind:ident $name:literal $group:ident $cost:ident {
        measures: $measures:literal, cause: $cause:literal, test: $test:literal,
        gauges: [$($gauge:ident $gauge_name:literal $unit:literal $better:ident),*],
        repairs: [$($repair:ident),*],
    })*) => {
        /// A thing that is examined.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is documented by its row of the table")]
        pub enum CheckKind {
            $($kind,)*
        }

        /// A value that a check measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is documented by its row of the table")]
        pub enum Gauge {
            $($($gauge,)*)*
        }

        /// Every check, in the order of [`CheckKind`].
        pub const CHECKS: &[CheckRow] = &[$(CheckRow {
            kind: CheckKind::$kind, name: $name, group: $group, cost: $cost,
            measures: $measures, cause: $cause, test: $test, repairs: &[$(Repair::$repair),*],
        },)*];

        /// Every value, in the order of [`Gauge`].
        pub const GAUGES: &[GaugeRow] = &[$($(GaugeRow {
            gauge: Gauge::$gauge, kind: CheckKind::$kind, name: $gauge_name, unit: $unit, better: $better,
        },)*)*];
    };
}

macro_rules! repairs {
    ($($repair:ident $text:literal;)*) => {
        /// A step that repairs what a check found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is documented by its row of the table")]
        pub enum Repair {
            $($repair,)*
        }

        /// What each step is, in the order of [`Repair`]: a command or a sentence, in which `<word>` stands for what is
        /// known only on the host.
        pub const REPAIRS: &[(Repair, &str)] = &[$((Repair::$repair, $text),)*];
    };
}

rows! {
    Memlock "memlock" Host Files {
        measures: "how much memory a process may lock",
        cause: "Memory regions are locked memory. A workload that needs more than the limit cannot be set up.",
        test: "Fails below 1 GiB and warns at any other limit; passes with CAP_IPC_LOCK. The limit is that of the process \
            that looks. Read from `/proc/self/limits` and `/proc/self/status`.",
        gauges: [LockableMemory "lockable_memory" "bytes" Higher],
        repairs: [RaiseMemlock],
    }
    Governor "cpu governor" Host Files {
        measures: "which governor sets the clock of each CPU",
        cause: "Posting slows down when the CPUs clock down, which looks like a slow NIC.",
        test: "Warns if a CPU is not at `performance`. Read from `cpufreq/scaling_governor` of each CPU.",
        gauges: [SlowCpus "cpus_not_at_performance" "" Lower],
        repairs: [SetGovernor],
    }
    Bios "BIOS" Host Files {
        measures: "vendor, version and date of the BIOS",
        cause: "A BIOS update changes settings of PCIe and memory. A campaign on one host has no other to compare with.",
        test: "Never warns; the line is only a record, and absent if the host shows no DMI tables. Read from \
            `/sys/class/dmi/id`.",
        gauges: [],
        repairs: [],
    }
    Device "device" Host Files {
        measures: "whether there is an RDMA device of the name that was asked for",
        cause: "Without a device nothing can be measured.",
        test: "Fails if there is none. Read from `/sys/class/infiniband`.",
        gauges: [Devices "devices" "" Higher],
        repairs: [NameDevice, LoadDriver],
    }
    Port "port" Host Files {
        measures: "the state of the port, and whether the link has more than one lane",
        cause: "No QP can be connected through a port that is not active. A link that has lost lanes is up and slow.",
        test: "Fails if the port is not active, or not there, or a port of InfiniBand has one lane. Warns if a port of \
            Ethernet has one lane and could be faster; without the modes of the interface, if the lane is of HDR or \
            faster. Read from `/sys/class/infiniband/DEVICE/ports`, and over ethtool netlink.",
        gauges: [],
        repairs: [RaiseLink, RunSubnetManager, RepairLanes, CheckSubnet],
    }
    Gid "gid" Host Files {
        measures: "the address that traffic has",
        cause: "RoCEv1 is not routed and not measured. Over IPv6 both hosts must reach each other over it.",
        test: "Fails without a RoCEv2 address, warns without one over IPv4. Read from `gids` and `gid_attrs/types` of the port.",
        gauges: [],
        repairs: [StartSubnetManager, AddAddress],
    }
    Versions "versions" Host Files {
        measures: "firmware, driver and kernel",
        cause: "Findings depend on them, so a report has to name them.",
        test: "Never warns; the line is only a record. Read from `fw_ver`, `device/driver` and `osrelease`.",
        gauges: [],
        repairs: [],
    }
    Mtu "mtu" Host Files {
        measures: "the MTU of the interface",
        cause: "A path MTU takes 96 bytes more on the interface. Workloads with a larger path MTU than fits cannot run.",
        test: "Warns if less than the path MTU 4096 fits; fails if none fits. Read from `/sys/class/net/NETDEV/mtu`.",
        gauges: [InterfaceMtu "interface_mtu" "bytes" Higher],
        repairs: [RaiseMtuEverywhere, RaiseMtu],
    }
    Bond "bond" Host Files {
        measures: "whether each slave of a bond is up, in the aggregate, as fast as the others and of the bond's MTU",
        cause: "A port that is down or left out leaves all traffic to the other ports. A bond has one state for all slaves, so \
            nothing else shows it.",
        test: "Fails if a slave is down, if there is no LACP partner, or if a slave is not in the active aggregate. Warns if a \
            slave is slower than another or of another MTU than the bond. Absent if the interface is no bond. Read from \
            `bonding` and `bonding_slave` of the interfaces, `operstate`, `carrier`, `speed`, and `/proc/net/bonding`.",
        gauges: [Slaves "slaves" "" Neither, SlavesDown "slaves_down" "" Lower],
        repairs: [RaiseSlave, AggregateOnSwitch, AggregateSlave, CheckSlave, SetSlaveMtu, AddSlave],
    }
    Pfc "pfc" Host Files {
        measures: "which priorities are lossless, for each slave of a bond",
        cause: "Without one, packets are dropped unless the whole link is paused, and lost packets look like a slow NIC.",
        test: "Warns if no priority is lossless. Asked over DCB netlink, as `dcb pfc show` does.",
        gauges: [LosslessPriorities "lossless_priorities" "" Higher],
        repairs: [AskPfc, EnablePfc],
    }
    TrafficClass "traffic class" Host Files {
        measures: "the priority at which the traffic of Kelpie travels",
        cause: "Traffic at a priority that is not lossless loses packets.",
        test: "Warns if the priority is not lossless. The class is that of `--traffic-class`, or the one that the device \
            forces. Asked over DCB netlink, and read from `tc/PORT/traffic_class`.",
        gauges: [Dscp "dscp" "" Neither, Priority "priority" "" Neither],
        repairs: [MapDscp, ForceClass, SendClass],
    }
    Interface "interface" Host Files {
        measures: "which network interface belongs to the port",
        cause: "MTU, priorities and driver counters are those of the interface.",
        test: "Unknown if none was found. Read from `gid_attrs/ndevs/0` of the port.",
        gauges: [],
        repairs: [],
    }
    Counters "counters" Host Files {
        measures: "how many counters the port has, and whether the time of pause is among them",
        cause: "The symptom `pause` cannot be seen without it. Counters of frames only say how much pause there was at most.",
        test: "Warns without counters of pause, or with those of frames only. Read from all sources of counters.",
        gauges: [CountersFound "counters" "" Neither],
        repairs: [],
    }
    Cable "cable" Host Files {
        measures: "how often the link went down or was trained again, and the symbols and packets that the cable lost, since \
            boot; per second if there are two readings",
        cause: "A marginal cable, transceiver or switch port loses packets, and a link that goes down stops all traffic until \
            it is up again. Error correction hides the beginning.",
        test: "Warns if the link went down or was trained again more than twice (and once more for each month that the host is \
            up), if more than ten symbols or packets were lost (and one more for each hour), if any was between two readings, \
            or if 2.4e-5 of all bits had to be corrected, a tenth of what error correction can stand. The thresholds are our \
            choice. Unknown if the port counts none. Read from `counters` of the port, `ethtool -S`, `carrier_down_count` \
            and `rx_crc_errors` of the interface. `--again` and `--against` an earlier output of the same host give two \
            readings.",
        gauges: [
            LinkDowns "link_downs" "" Lower, LinkTrainings "link_trainings" "" Lower, SymbolErrors "symbol_errors" "" Lower,
            BrokenPackets "broken_packets" "" Lower, CorrectedBits "corrected_bits" "" Lower,
            CorrectedShare "corrected_share" "" Lower, CableErrorRate "errors_per_second" "1/s" Lower
        ],
        repairs: [ChangeCable],
    }
    Retransmissions "retransmissions" Host Files {
        measures: "packets that were sent again, requests that had no answer in time, and packets that arrived out of order, \
            since boot; per second if there are two readings",
        cause: "A sender of RoCE goes back to the lost packet, so a few losses cost much throughput. A timeout costs as long \
            as the QP waits.",
        test: "Warns if at least 100 retransmissions and timeouts were, and one in 10,000 of the packets sent. With two \
            readings only what was counted between them is judged. Unknown if packets only arrived out of order: adaptive \
            routing does that without a loss. The thresholds are our choice. Read from `hw_counters` of the port and RDMA \
            netlink.",
        gauges: [
            Retransmissions "retransmissions" "" Lower, Timeouts "timeouts" "" Lower, OutOfOrder "out_of_order" "" Lower,
            ResentRate "resent_per_second" "1/s" Lower
        ],
        repairs: [LookAtLoss, LookAtSender],
    }
    Drops "drops" Host Files {
        measures: "packets that the port dropped for want of room, packets and messages without a posted buffer, and pause \
            storms, since boot; per second if there are two readings",
        cause: "A host that takes packets too slowly drops them or pauses its switch, and the sender looks slow. In a pause \
            storm the NIC sends no pause any more and drops.",
        test: "Warns at one pause storm, or if at least 100 packets were dropped, and one in 10,000 of the packets \
            received. With two readings only what was counted between them is judged. The thresholds are our choice. \
            Read from `ethtool -S` and `hw_counters` of the port.",
        gauges: [
            NoRoom "without_room" "" Lower, NoBuffer "without_buffer" "" Lower, PauseStorms "pause_storms" "" Lower
        ],
        repairs: [LookAtRoom, PostBuffers, FindStorm],
    }
    Pcie "pcie" Host Files {
        measures: "what the narrowest link between the root port and the NIC carries, beside the rate of the port and of all \
            ports behind that link",
        cause: "A link that is slower than the port limits all traffic, which then looks like an anomaly of the NIC. Ports \
            that share a slot limit each other when all have traffic.",
        test: "Fails if the link is too slow for the port, whose traffic takes a tenth more on PCIe. Warns if the link carries \
            less than the NIC can, or less than all active ports behind it take together. Read from `current_link_*` and \
            `max_link_*` of each function on the way, from `speed` of the interfaces and from `ports/N/rate`.",
        gauges: [
            PcieCarries "carried_bps" "bits/s" Higher, PortCarries "port_bps" "bits/s" Neither,
            TogetherCarry "ports_together_bps" "bits/s" Neither
        ],
        repairs: [MoveAboveNic, MoveNic, ExpectPcie, SpreadPorts],
    }
    PcieErrors "pcie errors" Host Files {
        measures: "errors that the NIC's PCIe link reported since boot",
        cause: "Packets with errors are sent again, and the link may be marginal.",
        test: "Warns if AER counted an error that was not corrected, or more than ten that were (and one more for each \
            hour). The thresholds are our choice. Read from `aer_dev_*`.",
        gauges: [
            CorrectableErrors "correctable" "" Lower, NonfatalErrors "nonfatal" "" Lower, FatalErrors "fatal" "" Lower
        ],
        repairs: [ReseatNic],
    }
    RelaxedOrdering "relaxed ordering" Host Files {
        measures: "whether the device may use relaxed ordering",
        cause: "Without it writes wait for each other on their way to memory. Behind some root ports it slows writes down or \
            breaks their order, so the kernel keeps it off.",
        test: "Warns if the device may not, or if the device may behind a root port that the kernel lists as broken (Intel \
            Haswell and Broadwell servers, AMD A1100). Source of the list: kernel `drivers/pci/quirks.c`, \
            `quirk_relaxedordering_disable`. Whether an MR asks for it is `tuning.relaxed_ordering` of the pair file. Read \
            from the configuration space, which needs root.",
        gauges: [],
        repairs: [EnableOrdering, DisableOrdering, LookAsRoot],
    }
    ReadRequest "read request" Host Files {
        measures: "the longest read that the NIC may ask PCIe for at once (MaxReadReq)",
        cause: "The NIC has a limited number of reads under way. Small ones hold back whatever the NIC sends.",
        test: "Warns below 512 bytes. Read from the configuration space, which needs root.",
        gauges: [ReadBytes "max_read_request" "bytes" Higher],
        repairs: [RaiseReadRequest, LookAsRoot],
    }
    Acs "acs" Host Files {
        measures: "how many bridges above the NIC redirect requests between peers",
        cause: "Redirected requests go up to the root, so the way to the memory of a GPU is long.",
        test: "Warns if a bridge redirects. Read from the configuration space, which needs root.",
        gauges: [RedirectingBridges "redirecting_bridges" "" Lower],
        repairs: [DisableAcs, LookAsRoot],
    }
    Iommu "iommu" Host Files {
        measures: "whether the IOMMU translates the NIC's addresses",
        cause: "Misses of its cache look like misses of the NIC's.",
        test: "Warns if it translates. Read from `iommu_group/type`.",
        gauges: [],
        repairs: [PassThrough],
    }
    Numa "numa" Host Files {
        measures: "the NUMA node of the NIC",
        cause: "Threads and memory may be far from the NIC without anybody's knowing.",
        test: "Warns if there are several nodes and the firmware does not report which one is the NIC's. Read from \
            `numa_node` and `distance`.",
        gauges: [Nodes "nodes" "" Neither],
        repairs: [ReportNuma],
    }
    NotAsked "doctor" Pair Files {
        measures: "whether a host could be examined",
        cause: "Nothing is known of a host whose agent does not answer.",
        test: "Unknown if the agent gave an error instead.",
        gauges: [],
        repairs: [LookThere],
    }
    SameMtu "interface MTU" Pair Files {
        measures: "whether both interfaces have one MTU",
        cause: "The smaller one limits the path MTU of workloads.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [RaiseBothMtus],
    }
    SameSpeed "link speed" Pair Files {
        measures: "whether both links have one speed",
        cause: "The slower port limits both.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [CheckSpeed],
    }
    SameDevice "device" Pair Files {
        measures: "whether both devices are of one type",
        cause: "What is found on a pair of two kinds cannot be told to be of one of them.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [UseOneKind],
    }
    SameFirmware "firmware" Pair Files {
        measures: "whether both devices have one firmware",
        cause: "As of the device.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [FlashFirmware],
    }
    SameDriver "driver" Pair Files {
        measures: "whether both hosts have one driver, in one version",
        cause: "As of the device.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [UseOneKind],
    }
    SamePfc "PFC priorities" Pair Files {
        measures: "whether the same priorities are lossless on both",
        cause: "Traffic that is lossless on one side only still loses packets.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [EnableBothPfc],
    }
    SameTrust "trust" Pair Files {
        measures: "whether both interfaces take the priority from the same field",
        cause: "Packets of one class travel at two priorities otherwise.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [SetTrust],
    }
    SameKernel "kernel" Pair Files {
        measures: "whether both hosts run one kernel",
        cause: "As of the device.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [UseOneKind],
    }
    SameMachine "machine" Pair Files {
        measures: "whether both hosts are of one make",
        cause: "As of the device.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [UseOneKind],
    }
    SameBios "BIOS" Pair Files {
        measures: "whether both hosts have one BIOS",
        cause: "As of the device.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [InstallBios],
    }
    SameCableRate "cable errors per second" Pair Files {
        measures: "whether both ports count errors of their cables at one rate",
        cause: "The cable of one host loses more. Totals since boot are not compared, because one host may be up for longer.",
        test: "Warns if one rate is more than twice the other. Absent unless both outputs have two readings (`--again`).",
        gauges: [],
        repairs: [ChangeWorseCable],
    }
    SameResentRate "retransmissions per second" Pair Files {
        measures: "whether both hosts send packets again at one rate",
        cause: "The way from one host loses more than the way back. Totals are not compared, as those of the cable.",
        test: "Warns if one rate is more than twice the other. Absent unless both outputs have two readings (`--again`).",
        gauges: [],
        repairs: [LookAtWorsePath],
    }
    SameOther "another fact" Pair Files {
        measures: "whether both hosts agree in what another version of Kelpie reports, under its name",
        cause: "As of the device.",
        test: "Warns if they differ.",
        gauges: [],
        repairs: [UseOneKind],
    }
    Links "links" Ports Files {
        measures: "how many ports of the bonds are down",
        cause: "The other port has all traffic.",
        test: "Fails if one is down.",
        gauges: [PortsDown "ports_down" "" Lower],
        repairs: [LookAtPort],
    }
    Speed "speed" Ports Seconds {
        measures: "the speed of each port beside the speed that both ends of its cable could have, and what one port alone \
            carries of it",
        cause: "A port that trained to half its speed takes half of the traffic with it, and both ports together still \
            carry twice one alone.",
        test: "Fails if a port trained below what it and its link partner could have, or is slower than the fastest of the \
            four; warns if a port is below its own fastest speed and the partner's is not known, or if one port alone \
            carries less than 0.8 of its speed, and fails below 0.6; unknown if a speed was not read. Read from `/sys/class/net/NETDEV/speed`, and over ethtool netlink.",
        gauges: [TrainedShare "trained_share" "" Higher, AloneShare "alone_share" "" Higher],
        repairs: [LookAtSpeed, LookAtShared, MoveNic, ReadSpeed],
    }
    PortPcie "pcie" Ports Files {
        measures: "what the narrowest PCIe link of both NICs carries",
        cause: "Both ports share the PCIe link of their NIC. No source port helps a link that is full.",
        test: "Fails if PCIe carries less than one port, warns if less than both; traffic takes a tenth more on PCIe.",
        gauges: [PortPcieCarries "carried_bps" "bits/s" Higher],
        repairs: [MoveNic],
    }
    PortErrors "errors" Ports Seconds {
        measures: "how many errors a port counts while traffic runs",
        cause: "Damaged packets are lost, and a sender of RoCE goes back to the lost packet.",
        test: "Warns at one error and fails at ten. Read from `statistics/rx_errors` and `tx_errors` of each port.",
        gauges: [NewErrors "errors" "" Lower],
        repairs: [LookAtOptics],
    }
    PortPause "pause" Ports Seconds {
        measures: "for which share of the time a port is paused, or pauses its switch",
        cause: "Pause of one port slows the flows of this port, however well source ports are chosen.",
        test: "Warns from 0.001 and fails from 0.1. Read from the driver's counters of pause.",
        gauges: [PausedShare "paused_share" "" Lower],
        repairs: [LookBehindPause],
    }
    PortMtu "mtu" Ports Files {
        measures: "whether the four ports have one MTU",
        cause: "Packets larger than the MTU of one port are lost at this port, and arrive by the other.",
        test: "Fails if two differ. Read from `/sys/class/net/NETDEV/mtu`.",
        gauges: [SmallestPortMtu "smallest_mtu" "bytes" Higher],
        repairs: [RaisePortMtu],
    }
    Lacp "lacp" Ports Files {
        measures: "whether both ports of each bond talk to one LACP partner",
        cause: "A bond uses the ports of one partner. A port with another partner, or without one, carries no traffic.",
        test: "Fails if partners differ or none answers. Read from `/proc/net/bonding/BOND`, which needs root.",
        gauges: [LacpFaults "lacp_faults" "" Lower],
        repairs: [LookAtLacp],
    }
    Pairing "pairing" Ports Seconds {
        measures: "how many QPs arrive on another side than that by which they left",
        cause: "There they meet those that belong there, and one port of the receiver has the traffic of two.",
        test: "Fails if a QP crosses; four QPs or more that all cross look like swapped cables; unknown if not all were \
            seen at both ends. Source: C4 (HPCA 2025), section III-B; the number of QPs is our choice.",
        gauges: [CrossedQps "crossed_qps" "" Lower],
        repairs: [SwapCables, Steer, Deal],
    }
    Balance "balance" Ports Seconds {
        measures: "the share by which the bytes of one port are off a fair half",
        cause: "The port that carries more limits both.",
        test: "Warns from 0.15 and fails from 0.40: five QPs of eight on one port are off by a quarter, six by a half. \
            Source: C4 (HPCA 2025), section III-B; the thresholds are our choice.",
        gauges: [SentUneven "sent_uneven" "" Lower, ReceivedUneven "received_uneven" "" Lower],
        repairs: [Steer, Deal],
    }
    Diversity "diversity" Ports Seconds {
        measures: "how many source ports the QPs have",
        cause: "QPs of one source port take one path.",
        test: "Fails if all QPs have one, warns if some share one or all that were seen take one pair of ports.",
        gauges: [SourcePorts "source_ports" "" Higher],
        repairs: [UseTwoQps, Steer, Deal],
    }
    Collision "collision" Ports Seconds {
        measures: "how many times as much both ports carry as one alone",
        cause: "Flows that meet on a link, or a part that both ports share, take the second port's worth.",
        test: "Warns below 1.8 and fails below 1.5; 2 is ideal, 1 is a collision. A full PCIe link, and QPs that do not \
            meet, are named as such. The thresholds are our choice.",
        gauges: [Together "times_one_alone" "" Higher],
        repairs: [LookAtShared, MoveNic, Steer, Deal],
    }
    Loss "loss" Ports Seconds {
        measures: "the largest share of packets that a path loses",
        cause: "A sender of RoCE goes back to the lost packet, so throughput falls by far more than the share.",
        test: "Fails from 0.001; unknown if not all paths were measured.",
        gauges: [WorstLoss "loss" "" Lower],
        repairs: [LookAtPaths],
    }
    Failover "failover" Ports Minutes {
        measures: "how long no traffic moves after a port went down",
        cause: "Traffic that does not go on loses the job, and a port that is not used again halves the rest of it.",
        test: "Fails if traffic does not go on, goes on after more than a second, ten times the usual `miimon`, or the port \
            has none after it came back. Only with `--port-down`.",
        gauges: [Gap "gap" "ms" Lower],
        repairs: [RetryLonger, OpenAgain, LowerMiimon],
    }
    PcieLink "pcie_link" Inside Files {
        measures: "what a PCIe link of the host carries",
        cause: "A link below what its function can do slows all that is behind it.",
        test: "Warns if width or speed is below what the function can do. Read from `current_link_*` and `max_link_*`.",
        gauges: [LinkCarries "carried_bps" "bits/s" Higher],
        repairs: [ReseatCard],
    }
    Virtualisation "virtualisation" Inside Files {
        measures: "whether the host is a virtual machine",
        cause: "A hypervisor chooses what is seen of PCIe, and needs ACS and ATS as a bare host does not.",
        test: "Never warns. Read from the flags of `/proc/cpuinfo`.",
        gauges: [],
        repairs: [],
    }
    InsideIommu "iommu" Inside Files {
        measures: "which IOMMU is in use",
        cause: "The checks of ACS and ATS depend on it.",
        test: "Never warns. Read from `/sys/class/iommu` and `/sys/kernel/iommu_groups`.",
        gauges: [],
        repairs: [],
    }
    Dimms "dimms" Inside Files {
        measures: "how many memory modules there are, and of which size in all",
        cause: "Empty channels make memory slow.",
        test: "Never warns; unknown if the EDAC driver shows none. Read from `/sys/devices/system/edac/mc`.",
        gauges: [DimmCount "dimms" "" Neither, DimmMemory "memory" "MiB" Neither],
        repairs: [],
    }
    InsideAcs "acs" Inside Files {
        measures: "whether a port between peers redirects their requests",
        cause: "Virtual machines need it; on a bare host it sends traffic between GPU and NIC through the root.",
        test: "Warns if a port redirects on a bare host. Read from the configuration space, which needs root.",
        gauges: [],
        repairs: [TurnAcsOff],
    }
    Ats "ats" Inside Files {
        measures: "whether a device may cache translations of addresses",
        cause: "In a virtual machine traffic between peers goes through the root without it.",
        test: "Warns if it is off in a virtual machine. Read from the configuration space, which needs root.",
        gauges: [],
        repairs: [TurnAtsOn],
    }
}

repairs! {
    RaiseMemlock "ulimit -l unlimited before `kelpie agent` (in a service: LimitMEMLOCK=infinity)";
    SetGovernor "cpupower frequency-set -g performance";
    NameDevice "kelpie doctor <device>";
    LoadDriver "modprobe mlx5_ib, or your NIC's driver; for Soft-RoCE: rdma link add rxe0 type rxe netdev eth0";
    RaiseLink "ip link set dev <netdev> up, then check the cable";
    RunSubnetManager "run a subnet manager (`sminfo` says which one answers; `opensm` starts one): the cable is sound";
    RepairLanes "reseat or change the cable or optics, then compare the width that the switch's port is set to \
        (InfiniBand: `iblinkinfo`; Ethernet: `ethtool NETDEV`)";
    CheckSubnet "check the cable, and whether the switch's port is enabled (InfiniBand: `ibportstate`, and the subnet \
        manager by `sminfo`)";
    StartSubnetManager "start a subnet manager (opensm)";
    AddAddress "ip address add 10.0.0.1/24 dev <netdev>";
    RaiseMtuEverywhere "ip link set dev <netdev> mtu 4200, on both hosts and the switch";
    RaiseMtu "ip link set dev <netdev> mtu 4200";
    RaiseSlave "ip link set dev <netdev> up, then look at its cable, its optics and the switch's port";
    AggregateOnSwitch "configure LACP on the switch's ports of <bond>, or give <bond> the mode that the switch has";
    AggregateSlave "look at the switch's port of <netdev>: the port has to be in the port channel of the others of <bond>";
    CheckSlave "look at `ethtool <netdev>` and at the speed of its switch port; reseat or change the cable";
    SetSlaveMtu "ip link set dev <bond> mtu <mtu>, which sets all slaves";
    AddSlave "ip link set dev NETDEV master <bond>";
    AskPfc "dcb pfc show dev <netdev>, or the NIC's own tool (mlnx_qos -i <netdev>)";
    EnablePfc "dcb pfc set dev <netdev> prio-pfc all:off 3:on, on both hosts and the switch";
    MapDscp "dcb app replace dev <netdev> dscp-prio <dscp>:<priority>";
    ForceClass "echo <class> > /<file>";
    SendClass "`tuning: {traffic_class: <class>}` of the host in the pair file, and in the application NCCL_IB_TC=<class> \
        or its own setting";
    ChangeCable "clean and reseat the cable or optics, then change them, then the switch's port; `--again 60s` says \
        whether that helped";
    LookAtLoss "look at `cable` and `pfc` here and at the peer, and at drops of the switch's ports (`kelpie doctor --again \
        60s` under traffic)";
    LookAtSender "look at `retransmissions` of the hosts that send here: none there means adaptive routing";
    LookAtRoom "find what takes packets too slowly here: look at `pcie`, `numa` and `iommu`, and at `pfc`, which \
        pauses the switch instead of dropping";
    PostBuffers "post more receive buffers in the application, or take messages faster (the ring of the interface: \
        `ethtool -G`)";
    FindStorm "find what hangs on this host and makes the NIC pause its switch: a stopped process or GPU, or PCIe; see \
        `dmesg`";
    ChangeWorseCable "change the cable or optics of the host that counts more, or its switch port";
    LookAtWorsePath "look at `cable` and `pfc` of the host that counts more, and at the drops of its switch port";
    MoveAboveNic "move the NIC to another slot; reseat the riser or cable at <address>; check the BIOS's bifurcation \
        and link speed";
    MoveNic "move the NIC to a slot of its width and generation; reseat it; check the BIOS's bifurcation and link \
        speed";
    ExpectPcie "expect no more than PCIe carries: the NIC has no faster PCIe link, so no slot helps; a NIC with an \
        auxiliary PCIe card, or of a newer generation, carries the port";
    SpreadPorts "put one port into another slot, or expect what the slot carries when all ports have traffic";
    ReseatNic "reseat the NIC or change the slot; see `dmesg | grep AER`";
    EnableOrdering "setpci -s <address> CAP_EXP+8.w=0010:0010, or the BIOS's PCIe relaxed ordering";
    DisableOrdering "setpci -s <address> CAP_EXP+8.w=0000:0010, as the kernel does";
    RaiseReadRequest "setpci -s <address> CAP_EXP+8.w=5000:7000 (4096 bytes), or the BIOS's maximum read request";
    LookAsRoot "run kelpie doctor as root";
    DisableAcs "setpci -s <address> ECAP_ACS+6.w=0000:000c, or ACS in the BIOS";
    PassThrough "add <option> to the kernel's command line and boot";
    ReportNuma "update the BIOS, or enable NUMA there; else give `dram:N` of the near node in workloads";
    LookThere "kelpie doctor, on the host itself";
    RaiseBothMtus "ip link set dev NETDEV mtu 4200, on both hosts: the smaller one limits the path MTU of workloads";
    CheckSpeed "check the cable and `ethtool NETDEV`: the slower port limits both";
    FlashFirmware "flash the same firmware, unless the difference is what you test";
    EnableBothPfc "dcb pfc set dev NETDEV prio-pfc all:off 3:on, on both hosts and the switch";
    SetTrust "dcb app show dev NETDEV, and give both the same";
    InstallBios "install the same BIOS and give both the same settings, unless the difference is what you test";
    UseOneKind "use two hosts of one kind, unless the difference is what you test";
    LookAtPort "look at the cable and at the switch's port; `ip link show` on the host says what it sees";
    LookAtSpeed "look at the speed that the switch's port is set to, at the cable and at forward error correction: \
        `ethtool NETDEV` lists what both ends offer; then raise the link again";
    ReadSpeed "write `speed_bps`, `capable_bps` and `agreed_bps` of each port, or check the hosts themselves with --subsystem";
    LookAtOptics "clean or change the cable or optics of this port; `ethtool -S NETDEV` and `ethtool -m NETDEV` show \
        errors and light";
    LookBehindPause "find what cannot keep up behind the pause: PCIe and memory of the host that sends it, or the \
        switch; `kelpie doctor` on that host";
    RaisePortMtu "ip link set dev BOND mtu 9000 on both hosts, and the same on the ports of both switches";
    LookAtLacp "compare `cat /proc/net/bonding/BOND` with the port channel of both switches: both ports of a bond need \
        one system address and one key";
    SwapCables "exchange the two cables of one host, where `lldpctl` shows the leaf of the other port; `kelpie paths \
        probe --ports 64` tells first: if all source ports cross, cables are swapped, else choose source ports";
    Steer "give the QPs other source ports: `kelpie paths probe` finds which, `kelpie paths steer` sets them";
    Deal "set the LAG port of each QP (mlx5dv_modify_qp_lag_port), and its source port for the arrival";
    UseTwoQps "use two QPs or more";
    LookAtShared "look at `balance` and `pairing`, and at what else both ports share: PCIe, memory, the leaf's \
        uplinks";
    LookAtPaths "look at cable and optics of the ports that these paths share, and leave the paths out of plans";
    RetryLonger "check `miimon` of the bond, and that QPs retry for longer than the bond takes (timeout, retry count)";
    OpenAgain "open the QPs again, or set their LAG port again: mlx5 keeps the affinity of the failure";
    LowerMiimon "lower `miimon` of the bond; 100 is usual";
    ReseatCard "read it under load, because GPUs slow idle links; then reseat the card, or look at the slot";
    TurnAcsOff "setpci -s <address> ECAP_ACS+6.w=0000, or turn ACS off in the firmware";
    TurnAtsOn "turn ATS on: in the NIC's firmware (ATS_ENABLED=1), and in the hypervisor";
}

#[cfg(test)]
mod tests;
