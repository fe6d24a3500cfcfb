//! Source ports and LAG ports of QPs on their way to a host, and what it says of them.

use kelpie_engine::plan::{GroupId, Role};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupLag, GroupPorts, Port};
use kelpie_spaces::Host;

use crate::Security;
use crate::client::AgentClient;
use crate::fake::FakeAgent;
use crate::testing::{flow, workload};

const ID: GroupId = GroupId { flow: 0, role: Role::Requester };

fn group(ports: &[u16], lag_ports: &[u8]) -> GroupPorts {
    GroupPorts { id: ID, ports: ports.to_vec(), lag_ports: lag_ports.to_vec() }
}

#[test]
fn lag_ports_reach_the_host_within_bounds_and_readings_say_what_came_of_them() {
    let agent = FakeAgent::anywhere();
    let workload = workload(vec![flow("a", "b", "WRITE")]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let address = agent.address.to_string();
        let client = AgentClient::connect(&address, &Security::Loopback, "planner").await.expect("free");
        let endpoints = client.set_up(Host::A, Port::default(), workload, false).await.expect("set up");
        for wrong in [vec![0], vec![1, 9], vec![1; 101]] {
            let refused = client.set_source_ports(vec![group(&[], &wrong)]).await.expect_err("out of bounds");
            assert!(kelpie_engine::chain(&refused).contains("LAG ports: at most 100 from 1 to 8"), "{refused:?}");
        }
        assert!(!agent.log().contains(&"set_source_ports".to_owned()), "{:?}", agent.log());
        client.set_source_ports(vec![group(&[50_000], &[2, 1])]).await.expect("within bounds");
        assert_eq!(agent.script.lock().expect("whole").ports, [group(&[50_000], &[2, 1])]);
        let peer = |own: GroupEndpoint| GroupEndpoint { id: own.id.peer(), ..own };
        client.connect_to(endpoints.into_iter().map(peer).collect()).await.expect("connects");
        client.start().await.expect("starts");
        let reading = client.sample().await.expect("a reading");
        assert_eq!(reading.lag, [GroupLag { id: ID, leaves: Ok(vec![2, 1]) }]);
    });
}

#[test]
fn what_was_said_before_there_were_lag_ports_is_still_understood() {
    let plain = group(&[50_000], &[]);
    let text = serde_json::to_string(&plain).expect("plain data");
    assert!(!text.contains("lag"), "{text}");
    assert_eq!(serde_json::from_str::<GroupPorts>(&text).expect("as written"), plain);
}
