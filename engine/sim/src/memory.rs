//! DMA between NIC and memory: PCIe, the socket interconnect, the root complex. Who asks for it is elsewhere.
//!
//! A server always takes work at the time of the current event, never ahead of it, so that none idles before work of
//! the future.

use kelpie_events::Picos;
use kelpie_spaces::Host;

use crate::blame::Cause;
use crate::resolved::Path;
use crate::world::World;

/// Ordered reads that can be under way. Source: our choice, PCIe tags left to small reads.
const MAX_BARRIERS: u64 = 8;

impl World<'_> {
    /// Reads `bytes` in `requests` pieces over `path`; says when the data are on the NIC.
    pub fn dma_read(&mut self, at: Host, path: Path, bytes: u64, requests: u64) -> Picos {
        let pcie = &self.model.pcie;
        let completions = bytes.div_ceil(pcie.max_completion_bytes).max(requests);
        let on_link = bytes + completions * pcie.tlp_overhead_bytes;
        let (costs, now) = (&self.costs, self.now);
        let host = self.hosts.get_mut(at);
        let idle = now + costs.pcie.time(on_link);
        let mut done = host.pcie_read.serve(now, costs.pcie.time(on_link));
        let mut latency = costs.pcie_read;
        match path {
            Path::Local | Path::PeerToPeer => {}
            Path::Interconnect => {
                done = done.max(host.interconnect.serve(now, costs.interconnect.time(bytes)));
                latency += costs.interconnect_latency;
            }
            Path::Redirected => {
                done = done.max(host.redirect_read.serve(now, costs.redirect_read.time(bytes)));
                latency += costs.interconnect_latency;
            }
        }
        host.counts.outbound_stalled_reads += (done - idle).as_micros();
        done + latency
    }

    /// Posts a write of `bytes` over `path`, `train` bytes long with what follows it; says when the receive engine may
    /// go on, and what held it up.
    pub fn dma_write(&mut self, at: Host, path: Path, bytes: u64, train: u64) -> (Picos, Cause) {
        let pcie = &self.model.pcie;
        let on_link = bytes + bytes.div_ceil(pcie.max_payload_bytes) * pcie.tlp_overhead_bytes;
        let (costs, now) = (&self.costs, self.now);
        let host = self.hosts.get_mut(at);
        if host.barriers_pending > 0 && path != Path::PeerToPeer && train > pcie.barrier_train_bytes {
            host.barriers_pending -= 1;
            host.pcie_write.serve(now, costs.barrier);
            host.barriers += costs.barrier;
            host.counts.outbound_stalled_writes += costs.barrier.as_micros();
        }
        let mut done = host.pcie_write.serve(now, costs.pcie.time(on_link));
        let mut cause = Cause::PcieWrite;
        let further = match path {
            Path::Local | Path::PeerToPeer => None,
            Path::Interconnect => {
                Some((host.interconnect.serve(now, costs.interconnect.time(bytes)), Cause::SocketInterconnect))
            }
            Path::Redirected => {
                Some((host.redirect_write.serve(now, costs.redirect_write.time(bytes)), Cause::PeerToPeerRedirect))
            }
        };
        if let Some((further_done, further_cause)) = further
            && further_done > done
        {
            (done, cause) = (further_done, further_cause);
        }
        (done.saturating_sub(costs.write_credit), cause)
    }

    /// Marks that ordered reads of small elements are under way, which later trains of writes may not pass.
    pub fn ordered_reads(&mut self, at: Host, path: Path, elements: u64) {
        if self.costs.strict && elements > 0 && path != Path::PeerToPeer {
            let pending = &mut self.hosts.get_mut(at).barriers_pending;
            *pending = (*pending + elements).min(MAX_BARRIERS);
        }
    }
}
