//! What bounds a space: a domain for each dimension, and the transports that can be sent within them.

use crate::dimensions::Dimension;
use crate::domain::Domain;
use crate::workload::{Mtu, Opcode, QpType};

/// A transport, an operation and a path MTU that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransportChoice {
    pub(crate) qp_type: QpType,
    pub(crate) op: Opcode,
    pub(crate) mtu: Mtu,
}

/// The domains of all dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Domains {
    /// In the order of the table.
    pub(crate) each: Vec<Domain>,
    /// What can be sent at all within them.
    pub(crate) transports: Vec<TransportChoice>,
}

impl Domains {
    pub(crate) fn domain(&self, dimension: Dimension) -> &Domain {
        &self.each[dimension as usize]
    }

    pub(crate) fn admits(&self, dimension: Dimension, truth: bool) -> bool {
        self.domain(dimension).contains(truth.into())
    }

    pub(crate) fn is_off(&self, dimension: Dimension) -> bool {
        dimension.row().optional().is_some() && self.domain(dimension).steps().len() == 1
    }

    /// Every combination of transport, operation and MTU in the domains that verbs allow.
    pub(crate) fn combinations(&self) -> Vec<TransportChoice> {
        let mut all = Vec::new();
        for qp_type in self.domain(Dimension::QpType).steps().iter().map(|code| QpType::ALL[*code as usize]) {
            for op in self.domain(Dimension::Opcode).steps().iter().map(|code| Opcode::ALL[*code as usize]) {
                for mtu in self.domain(Dimension::Mtu).steps().iter().filter_map(|mtu| Mtu::try_from(*mtu).ok()) {
                    if qp_type.supports(op) {
                        all.push(TransportChoice { qp_type, op, mtu });
                    }
                }
            }
        }
        all
    }
}
