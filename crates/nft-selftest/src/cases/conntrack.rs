//! Connection tracking entries: how they are read and removed.

use core::net::SocketAddr;
use std::io::IoSlice;
use std::net::UdpSocket;

use nft_batch::{Errno, Socket, Transport as _, Wait};
use nl_codec::SliceCursor;
use nl_codec::ack::Control;
use nl_codec::ct::{Conn, Filter, FilterFlags, Tuple};
use nl_codec::msg::{CtMsg, Family, Flags, Head, Messages, NftMsg, put_message};
use nl_codec::nft::expr::{Ct, CtKey};

use crate::Stop;
use crate::bench::{Bench, REG, output, rule, table};
use crate::case::cases;
use crate::raw::{Raw, system};
use crate::verdict::{Verdict, check, check_eq};

cases! {"conntrack":
    a_dump_is_filtered_by_protocol_and_port,
    an_entry_is_read_and_deleted_by_its_original_tuple,
    deleting_with_a_wrong_id_is_enoent,
    a_dump_filtered_by_an_ipv6_address_has_its_entries_or_all_others,
    a_deletion_without_a_tuple_heeds_the_family_in_version_1_alone,
}

const UDP: u8 = 17;

/// Has connections tracked, by a rule that looks at them.
fn track(b: &mut Bench) -> Verdict {
    let exprs = [Ct::load(CtKey::STATE, REG).into()];
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_RULE, &rule("base", &exprs))
        .accepted(&mut b.socket)
}

/// Sends a datagram to a socket that does not answer; source and destination.
fn flow(receiver: &UdpSocket) -> Result<(SocketAddr, SocketAddr), Stop> {
    let sender = UdpSocket::bind((receiver.local_addr()?.ip(), 0))?;
    let to = receiver.local_addr()?;
    sender.send_to(b"x", to)?;
    Ok((sender.local_addr()?, to))
}

fn tuple(from: SocketAddr, to: SocketAddr) -> Result<Tuple, Stop> {
    Tuple::new(UDP, from, to).ok_or_else(|| Stop::Fail("no tuple of two families".into()))
}

/// An entry: its original tuple and its id.
type Entry = (Tuple, Option<u32>);

/// Sends a request and returns the entries and errors that come back.
fn ask(
    socket: &mut Socket,
    msg: CtMsg,
    flags: Flags,
    body: &Conn<'_>,
) -> Result<(Vec<Entry>, Option<Errno>), Stop> {
    request(socket, Head::ct(msg, Family::IPV4).with_flags(flags), body)
}

fn request(
    socket: &mut Socket,
    head: Head,
    body: &Conn<'_>,
) -> Result<(Vec<Entry>, Option<Errno>), Stop> {
    let mut bytes = vec![0; 1_024];
    let mut cursor = SliceCursor::new(&mut bytes);
    put_message(&mut cursor, &head.with_seq(1), body)?;
    socket
        .send(&[IoSlice::new(cursor.written())])
        .map_err(|errno| system("send", errno))?;
    let (mut found, mut error) = (Vec::new(), None);
    let mut buf = vec![0; 1 << 16];
    loop {
        let datagram = match socket.recv(&mut buf, Wait::No) {
            Ok(datagram) => datagram,
            Err(Errno::EAGAIN) => return Ok((found, error)),
            Err(errno) => return Err(system("receive", errno)),
        };
        for msg in Messages::new(buf.get(..datagram.len).unwrap_or_default()) {
            let msg = msg?;
            match Control::decode(&msg)? {
                Some(Control::Ack(ack)) => error = ack.error,
                Some(_) => {}
                None => {
                    let conn: Conn<'_> = msg.nfnetlink()?.body()?;
                    if let Some(tuple) = conn.orig {
                        found.push((tuple, conn.id));
                    }
                }
            }
        }
    }
}

fn available(b: &mut Bench) -> Verdict {
    track(b)?;
    match ask(&mut b.socket, CtMsg::GET, Flags::DUMP, &Conn::default())? {
        (_, None) => Ok(()),
        (_, Some(errno)) => Err(Stop::skip(format!("no nf_conntrack_netlink: {errno}"))),
    }
}

/// `CTA_FILTER` (Linux 5.8): older kernels send all there is.
fn a_dump_is_filtered_by_protocol_and_port(b: &mut Bench) -> Verdict {
    available(b)?;
    let receivers = [
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    ];
    let mut flows = Vec::new();
    for receiver in &receivers {
        flows.push(flow(receiver)?);
    }
    let (all, _) = ask(&mut b.socket, CtMsg::GET, Flags::DUMP, &Conn::default())?;
    check_eq!(all.len(), 2);
    for (from, to) in flows {
        let wanted = Tuple::default().with_protocol(UDP).with_dst_port(to.port());
        let filter = Conn::matching_orig(wanted)
            .ok_or_else(|| Stop::Fail("this cannot be filtered by".into()))?;
        let (found, error) = ask(&mut b.socket, CtMsg::GET, Flags::DUMP, &filter)?;
        check_eq!(error, None);
        let tuples: Vec<_> = found.into_iter().map(|(tuple, _)| tuple.src()).collect();
        check_eq!(tuples, [Some(from.ip())]);
    }
    Ok(())
}

fn an_entry_is_read_and_deleted_by_its_original_tuple(b: &mut Bench) -> Verdict {
    available(b)?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let (from, to) = flow(&receiver)?;
    let by_tuple = Conn::with_orig(tuple(from, to)?);
    let (found, error) = ask(&mut b.socket, CtMsg::GET, Flags::empty(), &by_tuple)?;
    check_eq!((found.len(), error), (1, None));
    let (_, error) = ask(&mut b.socket, CtMsg::DELETE, Flags::ACK, &by_tuple)?;
    check_eq!(error, None);
    for msg in [CtMsg::GET, CtMsg::DELETE] {
        let (found, error) = ask(&mut b.socket, msg, Flags::ACK, &by_tuple)?;
        check_eq!((found.len(), error), (0, Some(Errno::ENOENT)));
    }
    Ok(())
}

/// So that not a newer entry of the same tuple goes in place of the one meant.
fn deleting_with_a_wrong_id_is_enoent(b: &mut Bench) -> Verdict {
    available(b)?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let (from, to) = flow(&receiver)?;
    let mut entry = Conn::with_orig(tuple(from, to)?);
    let (found, _) = ask(&mut b.socket, CtMsg::GET, Flags::empty(), &entry)?;
    let id = found.first().and_then(|(_, id)| *id);
    check!(id.is_some());
    entry.id = id.map(|id| id ^ 1);
    let (_, error) = ask(&mut b.socket, CtMsg::DELETE, Flags::ACK, &entry)?;
    check_eq!(error, Some(Errno::ENOENT));
    entry.id = id;
    let (_, error) = ask(&mut b.socket, CtMsg::DELETE, Flags::ACK, &entry)?;
    check_eq!(error, None);
    Ok(())
}

/// A flow over IPv4 and one over IPv6; the latter's ends.
fn one_of_each_family(b: &mut Bench) -> Result<[SocketAddr; 2], Stop> {
    available(b)?;
    if !netns_lab::has_ipv6() {
        return Err(Stop::skip("the kernel has no IPv6"));
    }
    let mut batch = b.batch();
    batch.add_table(Family::IPV6, &table())?;
    batch.add_chain(Family::IPV6, &output("base"))?;
    let exprs = [Ct::load(CtKey::STATE, REG).into()];
    batch.add_rule(Family::IPV6, &rule("base", &exprs))?;
    b.commit(batch)?;
    flow(&UdpSocket::bind("127.0.0.1:0")?)?;
    let (from, to) = flow(&UdpSocket::bind("[::1]:0")?)?;
    Ok([from, to])
}

/// Those that differ on many kernels (`ipv6_addr_cmp` taken for `ipv6_addr_equal`), and nobody can tell
/// from the answer: so addresses are compared here, not there.
fn a_dump_filtered_by_an_ipv6_address_has_its_entries_or_all_others(b: &mut Bench) -> Verdict {
    let [_, to] = one_of_each_family(b)?;
    let mut found = Vec::new();
    for address in [to.ip(), "fd00::1".parse()?] {
        let mut flags = Filter::default();
        flags.orig = Some(FilterFlags::IP_DST);
        let mut filter = Conn::with_orig(Tuple::default().with_dst(address));
        filter.filter = Some(flags);
        let head = Head::ct(CtMsg::GET, Family::IPV6).with_flags(Flags::DUMP);
        let (entries, error) = request(&mut b.socket, head, &filter)?;
        check_eq!(error, None);
        found.push(entries.len());
    }
    b.note(match found.as_slice() {
        [1, 0] => "it has those of the address",
        _ => "it has those of all other addresses",
    });
    check!(found == [1, 0] || found == [0, 1], "{found:?}");
    Ok(())
}

fn a_deletion_without_a_tuple_heeds_the_family_in_version_1_alone(b: &mut Bench) -> Verdict {
    one_of_each_family(b)?;
    let everything = Head::ct(CtMsg::GET, Family::UNSPEC).with_flags(Flags::DUMP);
    for (version, left) in [(1, 1), (0, 0)] {
        let mut head = Head::ct(CtMsg::DELETE, Family::IPV4).with_flags(Flags::ACK);
        head.version = version;
        let (_, error) = request(&mut b.socket, head, &Conn::default())?;
        check_eq!(error, None);
        let (entries, _) = request(&mut b.socket, everything, &Conn::default())?;
        check_eq!(entries.len(), left);
    }
    Ok(())
}
