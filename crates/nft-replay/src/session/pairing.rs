//! Which request a reply belongs to.
//!
//! A reply carries the sequence number of its request and the port id of its requester. Requests
//! carry no port id of their own; recordings of ours note it, others do not. The kernel answers a
//! transaction inside `sendmsg`, so a reply without a known requester belongs to the latest request
//! that has such a number.

use nl_codec::ack::Control;
use nl_codec::msg::{Messages, Msg};

use nft_batch::record::Direction;

use super::{Answer, Exchange, Kind, Refusal, Reply, Session};
use crate::capture::Capture;

/// Replies come soon; so many requests are looked back at.
const LOOK_BACK: usize = 256;

pub(super) fn pair(capture: &Capture) -> Session<'_> {
    let mut session = Session::default();
    let mut number = 1;
    for packet in &capture.packets {
        match packet.direction {
            Direction::ToKernel => {
                let Some(exchange) = Exchange::of(packet, number) else {
                    continue;
                };
                number += usize::from(matches!(exchange.kind, Kind::Transaction(_)));
                session.exchanges.push(exchange);
            }
            Direction::ToUser => {
                for msg in Messages::new(&packet.bytes).map_while(Result::ok) {
                    let found = find(&mut session.exchanges, &msg, packet.port);
                    match (found, answer(&msg)) {
                        (Some(exchange), Some(answer)) => {
                            exchange.port = Some(msg.header.port);
                            exchange.replies.push(Reply {
                                seq: msg.header.seq,
                                answer,
                            });
                        }
                        _ => session.unasked += 1,
                    }
                }
            }
        }
    }
    session
}

fn find<'s, 'c>(
    exchanges: &'s mut [Exchange<'c>],
    msg: &Msg<'_>,
    socket: Option<u32>,
) -> Option<&'s mut Exchange<'c>> {
    let (seq, port) = (msg.header.seq, msg.header.port);
    // Somebody else's: an event.
    if port == 0 || socket.is_some_and(|socket| socket != port) {
        return None;
    }
    let recent = exchanges.len().saturating_sub(LOOK_BACK);
    let recent = exchanges.get_mut(recent..)?;
    recent
        .iter_mut()
        .rev()
        .find(|exchange| exchange.has_seq(seq) && exchange.port.is_none_or(|known| known == port))
}

fn answer<'c>(msg: &Msg<'c>) -> Option<Answer<'c>> {
    match Control::decode(msg).ok()? {
        Some(Control::Ack(ack)) => Some(match ack.error {
            None => Answer::Ack,
            Some(errno) => Answer::Error(Refusal {
                errno,
                offset: ack.extended.offset,
                message: ack.extended.message,
                kind: ack.request.kind,
                len: ack.request.len,
            }),
        }),
        Some(Control::Done(done)) => Some(Answer::Done(done.error)),
        Some(_) => None,
        None => msg.nfnetlink().ok().map(Answer::Object),
    }
}
