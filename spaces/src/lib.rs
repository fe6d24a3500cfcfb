//! The vocabulary of Kelpie: workloads, the space they live in, features and regions. No clock, no I/O.

pub mod advice;
pub mod constraints;
pub mod dimensions;
mod directions;
pub mod document;
mod domain;
mod domains;
mod edit;
pub mod features;
pub mod flow_label;
pub mod headers;
mod json;
pub mod known;
mod limits;
mod mix;
mod moves;
mod narrow;
mod neighbours;
pub mod perftest;
pub mod region;
mod region_sampling;
mod repair;
mod sampling;
mod scalar;
pub mod schema;
mod serde_words;
mod sides;
pub mod space;
mod space_yaml;
mod suggest;
mod summary;
mod tagged;
pub mod units;
mod whole_space;
pub mod workload;
pub mod yaml;
mod yaml_words;

pub use constraints::{Violation, check};
pub use dimensions::Dimension;
pub use directions::{Direction, loaded_directions, receiver};
pub use document::DocumentError;
pub use features::{Feature, FeatureValue};
pub use json::from_json;
pub use narrow::Narrowing;
pub use neighbours::nearest_outside;
pub use region::{Condition, Region, Test};
pub use serde_words::serde_words;
pub use space::{Space, SpaceError};
pub use suggest::suggestion;
pub use tagged::{decode, read_tagged, read_tagged_with_null};
pub use units::{Bytes, counted};
pub use workload::{
    Batch, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, Ports, QpType, Request, Workload,
};
pub use yaml::{WorkloadError, workload_from_bytes, workload_from_yaml, workload_to_yaml};

#[cfg(test)]
mod tests;
