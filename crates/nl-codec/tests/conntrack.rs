//! Conntrack messages on the running kernel: create, read, filter, delete.
#![allow(clippy::unwrap_used, reason = "a test")]

mod kernel;

use core::net::SocketAddr;

use nl_codec::ack::Errno;
use nl_codec::ct::{Conn, ProtoInfo, Status, TcpInfo, TcpState, Tuple};
use nl_codec::msg::{CtMsg, Family, Flags, Head, MsgType};
use test_support::in_new_netns;

use crate::kernel::Kernel;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// What of a connection the tests compare.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    dst: String,
    port: u16,
    mark: u32,
}

struct Conntrack(Kernel);

impl Conntrack {
    /// Sends one request and hands every connection of the reply to `read`.
    fn request(
        &self,
        head: &Head,
        conn: &Conn<'_>,
        mut read: impl FnMut(&Conn<'_>),
    ) -> Option<Errno> {
        let failure = self.0.request(head, conn, |message| {
            assert_eq!(message.header.kind, MsgType::ct(CtMsg::NEW));
            read(&message.body().unwrap());
        });
        failure.map(|failure| failure.errno)
    }

    fn create(&self, family: Family, protocol: u8, src: &str, dst: &str, mark: u32) {
        let (src, dst): (SocketAddr, SocketAddr) = (src.parse().unwrap(), dst.parse().unwrap());
        let mut conn = Conn::with_orig(Tuple::new(protocol, src, dst).unwrap());
        conn.reply = Tuple::new(protocol, dst, src);
        conn.timeout = Some(600);
        conn.mark = Some(mark);
        conn.status = Some(Status::CONFIRMED | Status::SEEN_REPLY | Status::ASSURED);
        if protocol == TCP {
            let mut tcp = TcpInfo::default();
            tcp.state = Some(TcpState::ESTABLISHED);
            let mut info = ProtoInfo::default();
            info.tcp = Some(tcp);
            conn.proto_info = Some(info);
        }
        let flags = Flags::CREATE | Flags::EXCL | Flags::ACK;
        let head = Head::ct(CtMsg::NEW, family).with_flags(flags);
        assert_eq!(self.request(&head, &conn, |_| ()), None, "{conn:?}");
    }

    fn dump(&self, family: Family, filter: &Conn<'_>) -> Vec<Seen> {
        let mut seen = Vec::new();
        let head = Head::ct(CtMsg::GET, family).with_flags(Flags::DUMP);
        let error = self.request(&head, filter, |conn| {
            let orig = conn.orig.unwrap();
            seen.push(Seen {
                dst: orig.dst().unwrap().to_string(),
                port: orig.proto.unwrap().dst_port.unwrap(),
                mark: conn.mark.unwrap(),
            });
        });
        assert_eq!(error, None, "{filter:?}");
        seen.sort();
        seen
    }

    fn delete(&self, family: Family, conn: &Conn<'_>) -> Option<Errno> {
        let head = Head::ct(CtMsg::DELETE, family).with_flags(Flags::ACK);
        self.request(&head, conn, |_| ())
    }
}

fn seen(dst: &str, port: u16, mark: u32) -> Seen {
    Seen {
        dst: dst.to_owned(),
        port,
        mark,
    }
}

/// Three connections: two to one Service over IPv4, one over IPv6.
fn populated() -> Conntrack {
    let kernel = Conntrack(Kernel::new());
    kernel.create(Family::IPV4, TCP, "10.0.0.1:1000", "10.96.0.1:80", 1);
    kernel.create(Family::IPV4, UDP, "10.0.0.2:1001", "10.96.0.1:53", 2);
    kernel.create(Family::IPV6, UDP, "[fd00::1]:1002", "[fd00::96]:53", 3);
    kernel
}

#[test]
fn dumps_and_keyed_reads() {
    in_new_netns(|| {
        let kernel = populated();
        let v4 = [seen("10.96.0.1", 53, 2), seen("10.96.0.1", 80, 1)];
        let v6 = seen("fd00::96", 53, 3);
        assert_eq!(kernel.dump(Family::IPV4, &Conn::default()), v4);
        assert_eq!(kernel.dump(Family::IPV6, &Conn::default()), [v6]);
        assert_eq!(kernel.dump(Family::UNSPEC, &Conn::default()).len(), 3);

        let (src, dst) = (
            "10.0.0.1:1000".parse().unwrap(),
            "10.96.0.1:80".parse().unwrap(),
        );
        let key = Conn::with_orig(Tuple::new(TCP, src, dst).unwrap());
        let mut count = 0;
        let head = Head::ct(CtMsg::GET, Family::IPV4).with_flags(Flags::ACK);
        let error = kernel.request(&head, &key, |conn| {
            count += 1;
            assert_eq!(conn.orig, key.orig);
            assert_eq!(conn.reply, Tuple::new(TCP, dst, src));
            assert!(conn.status.unwrap().contains(Status::ASSURED));
            let tcp = conn.proto_info.unwrap().tcp.unwrap();
            assert_eq!(tcp.state, Some(TcpState::ESTABLISHED));
            assert!((1..=600).contains(&conn.timeout.unwrap()));
            assert!(conn.id.is_some());
        });
        assert_eq!((count, error), (1, None));
    });
}

#[test]
fn the_kernel_filters_dumps() {
    in_new_netns(|| {
        let kernel = populated();
        let mut by_mark = Conn::default();
        by_mark.mark = Some(2);
        by_mark.mark_mask = Some(u32::MAX);
        assert_eq!(
            kernel.dump(Family::UNSPEC, &by_mark),
            [seen("10.96.0.1", 53, 2)]
        );
        let dst = Tuple::default()
            .with_dst("10.96.0.1".parse().unwrap())
            .with_protocol(TCP)
            .with_dst_port(80);
        assert_eq!(
            kernel.dump(Family::IPV4, &Conn::matching_orig(dst).unwrap()),
            [seen("10.96.0.1", 80, 1)]
        );
        // Replies come from where the original direction went.
        let src = Tuple::default()
            .with_src("10.96.0.1".parse().unwrap())
            .with_protocol(UDP)
            .with_src_port(53);
        assert_eq!(
            kernel.dump(Family::IPV4, &Conn::matching_reply(src).unwrap()),
            [seen("10.96.0.1", 53, 2)]
        );
        let port = Tuple::default().with_protocol(UDP).with_dst_port(53);
        assert_eq!(
            kernel.dump(Family::IPV6, &Conn::matching_orig(port).unwrap()),
            [seen("fd00::96", 53, 3)]
        );
        // The kernel has these the wrong way round.
        let v6 = port.with_dst("fd00::96".parse().unwrap());
        assert_eq!(Conn::matching_orig(v6), None);
        let mut other_zone = Conn::default();
        other_zone.zone = Some(7);
        assert_eq!(kernel.dump(Family::IPV4, &other_zone), []);
    });
}

#[test]
fn the_kernel_filters_dumps_by_what_is_not_so() {
    in_new_netns(|| {
        let kernel = populated();
        let mut unreplied = Conn::default();
        unreplied.status = Some(Status::empty());
        unreplied.status_mask = Some(Status::SEEN_REPLY);
        assert_eq!(kernel.dump(Family::IPV4, &unreplied), []);
        unreplied.status_mask = Some(Status::DST_NAT);
        assert_eq!(kernel.dump(Family::IPV4, &unreplied).len(), 2);
    });
}

#[test]
fn deletes_one_or_those_that_match() {
    in_new_netns(|| {
        let kernel = populated();
        let (src, dst) = (
            "10.0.0.1:1000".parse().unwrap(),
            "10.96.0.1:80".parse().unwrap(),
        );
        let mut one = Conn::with_orig(Tuple::new(TCP, src, dst).unwrap());
        one.id = Some(1);
        assert_eq!(
            kernel.delete(Family::IPV4, &one),
            Some(Errno::ENOENT),
            "another id"
        );
        one.id = None;
        assert_eq!(kernel.delete(Family::IPV4, &one), None);
        assert_eq!(
            kernel.delete(Family::IPV4, &one),
            Some(Errno::ENOENT),
            "gone"
        );
        assert_eq!(kernel.dump(Family::UNSPEC, &Conn::default()).len(), 2);

        let mut by_mark = Conn::default();
        by_mark.mark = Some(3);
        by_mark.mark_mask = Some(u32::MAX);
        assert_eq!(kernel.delete(Family::IPV6, &by_mark), None);
        assert_eq!(
            kernel.dump(Family::UNSPEC, &Conn::default()),
            [seen("10.96.0.1", 53, 2)]
        );
    });
}

#[test]
fn deletes_all_of_a_family_only_with_version_1() {
    in_new_netns(|| {
        let kernel = populated();
        let mut head = Head::ct(CtMsg::DELETE, Family::IPV4).with_flags(Flags::ACK);
        head.version = 1;
        assert_eq!(kernel.request(&head, &Conn::default(), |_| ()), None);
        assert_eq!(
            kernel.dump(Family::UNSPEC, &Conn::default()),
            [seen("fd00::96", 53, 3)]
        );
        head.version = 0;
        assert_eq!(kernel.request(&head, &Conn::default(), |_| ()), None);
        assert_eq!(kernel.dump(Family::UNSPEC, &Conn::default()), []);
    });
}

#[test]
fn deletes_those_whose_tuple_matches_where_the_kernel_can() {
    in_new_netns(|| {
        let kernel = populated();
        let dst = Tuple::default().with_dst("10.96.0.1".parse().unwrap());
        match kernel.delete(Family::IPV4, &Conn::matching_orig(dst).unwrap()) {
            None => {}
            Some(error) => return test_support::skip(&format!("no filtered delete: {error}")),
        }
        assert_eq!(
            kernel.dump(Family::UNSPEC, &Conn::default()),
            [seen("fd00::96", 53, 3)]
        );
    });
}
