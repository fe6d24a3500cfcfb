//! A space of workloads: a domain per dimension, and which points belong. Random points live in `sampling`.

use crate::constraints::{self, Footprint};
use crate::dimensions::{Dimension, DimensionRow, Scope, Special, TABLE, device};
use crate::document::DocumentError;
use crate::domain::Domain;
use crate::domains::{Domains, TransportChoice};
use crate::edit::{set, split_evenly};
use crate::features::Feature;
use crate::repair::{Keep, fit_amounts};
use crate::sides::{set_bidirectional, set_loopback};
use crate::units::Bytes;
use crate::workload::{Batch, Depths, Flow, Host, Memory, MemoryPair, Request, Workload};

/// Why there is no such space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// The file is wrong.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The bounds exclude each other.
    #[error(
        "{name}: no workload fits all bounds together: look at qp_type with opcode, UD messages with mtu, batch with \
         depth, message with mr_size, and the totals"
    )]
    Empty {
        /// The space.
        name: String,
    },
    /// A dimension cannot be narrowed so.
    #[error("{key}: {rule}")]
    Narrowing {
        /// The key as it was given.
        key: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// Two spaces have nothing in common.
    #[error("{name} and {other} have no value of `{key}` in common")]
    Disjoint {
        /// The space that was restricted.
        name: String,
        /// By which.
        other: String,
        /// The dimension.
        key: &'static str,
    },
}

/// A set of workloads, described by a range or a set of values per dimension.
#[derive(Debug, Clone)]
pub struct Space {
    name: String,
    about: String,
    /// With at least one transport.
    domains: Domains,
    /// Sizes of one scatter-gather element.
    elements: Domain,
    /// Dimensions that a mutation may try: all but optional ones that are off.
    mutable: Vec<Dimension>,
}

/// Spaces are equal if they admit the same values, whatever they are called.
impl PartialEq for Space {
    fn eq(&self, other: &Self) -> bool {
        self.domains.each == other.domains.each
    }
}

impl Eq for Space {}

impl Space {
    /// A space of these domains, in the order of the table.
    pub(crate) fn new(name: &str, about: String, domains: Vec<Domain>) -> Result<Self, SpaceError> {
        debug_assert_eq!(domains.len(), Dimension::COUNT, "one domain per dimension");
        let longest = domains[Dimension::Message as usize].max();
        let elements = Domain::range(1, longest).expect("no message is empty");
        let domains = Domains { each: domains, transports: Vec::new() };
        let mutable = Dimension::all().filter(|dimension| !domains.is_off(*dimension)).collect();
        let mut space = Self { name: name.to_owned(), about, domains, elements, mutable };
        for transport in space.domains.combinations() {
            if space.contains(&space.least(transport)) {
                space.domains.transports.push(transport);
            }
        }
        if space.domains.transports.is_empty() {
            return Err(SpaceError::Empty { name: space.name });
        }
        Ok(space)
    }

    /// Its name in the catalog, or its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn about(&self) -> &str {
        &self.about
    }

    pub(crate) fn domain(&self, dimension: Dimension) -> &Domain {
        self.domains.domain(dimension)
    }

    /// The values of an ordered feature.
    pub(crate) fn domain_of(&self, feature: Feature) -> &Domain {
        if feature == Feature::SgeMin { &self.elements } else { self.domain(Dimension::of(feature)) }
    }

    /// Whether a dimension is optional and has one value here: no workload of this space speaks of it.
    pub fn is_off(&self, dimension: Dimension) -> bool {
        self.domains.is_off(dimension)
    }

    pub(crate) fn mutable(&self) -> &[Dimension] {
        &self.mutable
    }

    pub(crate) fn domains(&self) -> &Domains {
        &self.domains
    }

    pub(crate) fn transports(&self) -> &[TransportChoice] {
        &self.domains.transports
    }

    pub(crate) fn admits(&self, dimension: Dimension, truth: bool) -> bool {
        self.domains.admits(dimension, truth)
    }

    /// The least demanding point of a transport: if it breaks a bound, so does every point of this transport.
    pub(crate) fn least(&self, transport: TransportChoice) -> Workload {
        let min = |dimension| self.domain(dimension).min();
        let max32 = |dimension| self.domain(dimension).max() as u32;
        let min32 = |dimension| min(dimension) as u32;
        let sge_count = min(Dimension::SgeCount);
        let message = self.domain(Dimension::Message).ceil(sge_count).unwrap_or_else(|| min(Dimension::Message));
        let request = Request { op: transport.op, sge: vec![Bytes(0); sge_count as usize] };
        let mr_size = self.domain(Dimension::MrSize).ceil(message).unwrap_or_else(|| min(Dimension::MrSize));
        let memory =
            |dimension| Memory { device: device(min(dimension)), mrs: min32(Dimension::Mrs), mr_size: Bytes(mr_size) };
        let mut flow = Flow {
            qp_type: transport.qp_type,
            qps: min32(Dimension::Qps),
            mtu: transport.mtu,
            wq_depth: Depths { send: max32(Dimension::SendWqDepth), recv: max32(Dimension::RecvWqDepth) },
            batch: Batch { send: min32(Dimension::SendBatch), recv: min32(Dimension::RecvBatch) },
            pattern: vec![request; min(Dimension::Requests) as usize],
            memory: MemoryPair { from: memory(Dimension::MemoryRequester), to: memory(Dimension::MemoryResponder) },
            ..Flow::plain(Host::A, Host::B)
        };
        for request in &mut flow.pattern {
            split_evenly(request, message);
        }
        let mut workload = Workload::new(vec![flow]);
        for row in TABLE.iter().filter(|row| row.optional().is_some()) {
            set(&mut workload, row.dimension, min(row.dimension));
        }
        set_bidirectional(&mut workload, min(Dimension::Bidirectional) == 1);
        set_loopback(&mut workload, min(Dimension::Loopback) == 1);
        // The totals may have a lower bound; whether it can be reached does not depend on the rest.
        let _ = fit_amounts(&self.domains, &mut workload, Keep::NOTHING);
        workload
    }

    /// Whether the workload is valid and within every bound.
    pub fn contains(&self, workload: &Workload) -> bool {
        constraints::check(workload).is_ok() && self.bounds(workload)
    }

    fn bounds(&self, workload: &Workload) -> bool {
        let within = |row: &DimensionRow| {
            let (domain, mut inside) = (self.domain(row.dimension), true);
            row.scope.each(workload, &mut |value| inside &= domain.contains(value));
            inside
        };
        let most_mrs = self.domain(Dimension::TotalMrs).max();
        TABLE.iter().all(within) && Host::BOTH.iter().all(|host| Footprint::of(workload, *host).mrs <= most_mrs)
    }

    /// What both spaces admit.
    ///
    /// # Errors
    /// Where nothing is left, with the dimension if one alone is the reason.
    pub fn restrict(&self, other: &Space) -> Result<Space, SpaceError> {
        let mut domains = Vec::with_capacity(Dimension::COUNT);
        for dimension in Dimension::all() {
            let both = self.domain(dimension).intersect(other.domain(dimension));
            domains.push(both.ok_or_else(|| SpaceError::Disjoint {
                name: self.name.clone(),
                other: other.name.clone(),
                key: dimension.name(),
            })?);
        }
        Space::new(&format!("{} within {}", other.name, self.name), other.about.clone(), domains)
    }

    /// The space with the values that a workload has beyond it; `None` if the workload is not valid.
    pub fn including(&self, workload: &Workload) -> Option<Space> {
        let with = |row: &DimensionRow| {
            let mut domain = self.domain(row.dimension).clone();
            row.scope.each(workload, &mut |value| domain = domain.including(value));
            domain
        };
        let space = Space::new(&self.name, self.about.clone(), TABLE.iter().map(with).collect()).ok()?;
        space.contains(workload).then_some(space)
    }

    /// Whether every value of this space is a value of the other.
    pub fn is_within(&self, other: &Space) -> bool {
        self.domains.each.iter().zip(&other.domains.each).all(|(own, outer)| own.within(outer))
    }

    /// The decimal logarithm of the number of points that the search distinguishes.
    ///
    /// A range counts by its steps (powers of two and the values half-way between); a request counts by its size, its
    /// number of elements, and whether these are even or mixed. Limits between dimensions are not subtracted.
    pub fn log10_size(&self) -> f64 {
        let steps = |dimension| self.domain(dimension).steps().len() as f64;
        let lists = self.domain(Dimension::SgeCount).steps();
        let splits: f64 = lists.iter().map(|count| if *count > 1 { 2.0 } else { 1.0 }).sum();
        let shapes = (steps(Dimension::Message) * splits).log10();
        let vectors = self.domain(Dimension::Requests).steps();
        // log10 of a sum of powers of ten, about its largest term so that nothing overflows.
        let longest = shapes * self.domain(Dimension::Requests).max() as f64;
        let patterns: f64 = vectors.iter().map(|len| 10f64.powf(shapes * *len as f64 - longest)).sum();
        let others = TABLE.iter().filter(|row| counts_alone(row)).map(|row| steps(row.dimension).log10());
        (self.transports().len() as f64).log10() + longest + patterns.log10() + others.sum::<f64>()
    }
}

/// Whether the values of a dimension combine freely with those of others; those of transports and requests are counted
/// together, and totals only exclude.
fn counts_alone(row: &DimensionRow) -> bool {
    match row.scope {
        Scope::Flow { .. } => !matches!(row.dimension, Dimension::QpType | Dimension::Mtu),
        Scope::Memory { .. } | Scope::Whole { .. } | Scope::Special(Special::Memory(_) | Special::MixedOpcodes) => true,
        Scope::Request { .. }
        | Scope::Special(
            Special::SgeCount
            | Special::Requests
            | Special::Message
            | Special::TotalQps
            | Special::TotalMrs
            | Special::PinnedPerHost,
        ) => false,
    }
}
