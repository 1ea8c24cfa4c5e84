//! Endpoints of groups whose clients stick to them: each has a number that clients are remembered
//! by. It belongs to an endpoint of a Service port, whatever slot that moves to, and is never used
//! again for another.

use crate::clock::PENDING;
use crate::model::address::Target;
use crate::plan::EndpointId;

/// An endpoint of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) target: Target,
    pub(crate) id: EndpointId,
}

/// One that clients are not led to any more; a connection that has chosen it may still be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    pub(crate) member: Member,
    pub(crate) since: u64,
}

/// The endpoints of a group.
#[derive(Debug)]
pub(crate) struct Sticky {
    /// The group is one of this node's endpoints: its numbers have [`EndpointId::LOCAL`] set.
    local: bool,
    /// In use: rows in `sticky-endpoints` and `chosen-endpoints`. By target.
    members: Vec<Member>,
    /// Rows in `chosen-endpoints` alone. Oldest first.
    leaving: Vec<Leaving>,
}

/// What happened to an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Joined,
    Left,
    /// It was leaving, at this place and since then.
    CameBack(usize, u64),
    /// It had left, at this place and since then.
    Forgotten(usize, u64),
}

impl Sticky {
    pub(crate) fn new(local: bool, members: Vec<Member>, leaving: Vec<Leaving>) -> Self {
        let mut sticky = Self {
            local,
            members,
            leaving,
        };
        sticky.members.sort_unstable_by_key(|member| member.target);
        sticky
    }

    pub(crate) const fn is_local(&self) -> bool {
        self.local
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(crate) fn leaving(&self) -> &[Leaving] {
        &self.leaving
    }

    pub(crate) fn leaving_mut(&mut self) -> &mut [Leaving] {
        &mut self.leaving
    }

    /// All endpoints with rows.
    pub(crate) fn all(&self) -> impl Iterator<Item = Member> {
        let leaving = self.leaving.iter().map(|leaving| leaving.member);
        self.members.iter().copied().chain(leaving)
    }

    /// The number of an endpoint in use.
    pub(crate) fn member(&self, target: Target) -> Option<EndpointId> {
        let at = self.find(target).ok()?;
        self.members.get(at).map(|member| member.id)
    }

    /// The number that slots with this endpoint hold.
    pub(crate) fn id(&self, target: Target) -> Option<EndpointId> {
        self.member(target).or_else(|| {
            let mut leaving = self.leaving.iter().rev();
            let last = leaving.find(|leaving| leaving.member.target == target)?;
            Some(last.member.id)
        })
    }

    /// Is a number one of its rows'?
    pub(crate) fn has(&self, id: EndpointId) -> bool {
        self.all().any(|member| member.id == id)
    }

    /// Takes an endpoint in.
    pub(crate) fn join(&mut self, member: Member) -> Event {
        let at = self.find(member.target).unwrap_or_else(|at| at);
        self.members.insert(at, member);
        Event::Joined
    }

    /// Takes an endpoint back that was leaving: slots may still hold its number.
    pub(crate) fn come_back(&mut self, target: Target) -> Option<(Member, Event)> {
        let is_it = |leaving: &Leaving| leaving.member.target == target;
        let at = self.leaving.iter().rposition(is_it)?;
        let Leaving { member, since } = self.leaving.remove(at);
        self.join(member);
        Some((member, Event::CameBack(at, since)))
    }

    /// Lets the endpoint at a place go.
    pub(crate) fn leave(&mut self, at: usize) -> (Member, Event) {
        let member = self.members.remove(at);
        self.leaving.push(Leaving {
            member,
            since: PENDING,
        });
        (member, Event::Left)
    }

    /// Forgets one that left, at a place.
    pub(crate) fn forget(&mut self, at: usize) -> (Member, Event) {
        let Leaving { member, since } = self.leaving.remove(at);
        (member, Event::Forgotten(at, since))
    }

    /// Makes it not have happened.
    pub(crate) fn undo(&mut self, member: Member, event: Event) {
        let is_it = |other: &Member| *other == member;
        match event {
            Event::Joined => {
                self.remove(member);
            }
            Event::Left => {
                let at = self.leaving.iter().rposition(|it| is_it(&it.member));
                if let Some(at) = at {
                    self.leaving.remove(at);
                }
                self.join(member);
            }
            Event::CameBack(at, since) => {
                self.remove(member);
                self.leaving.insert(at, Leaving { member, since });
            }
            Event::Forgotten(at, since) => self.leaving.insert(at, Leaving { member, since }),
        }
    }

    fn remove(&mut self, member: Member) {
        if let Ok(at) = self.find(member.target) {
            self.members.remove(at);
        }
    }

    fn find(&self, target: Target) -> Result<usize, usize> {
        self.members
            .binary_search_by_key(&target, |member| member.target)
    }
}

/// Gives numbers out.
#[derive(Debug, Clone)]
pub(crate) struct EndpointIds {
    pub(crate) next: EndpointId,
    /// Numbers in use when the last one had been given out, in order.
    pub(crate) taken: Vec<EndpointId>,
}

impl Default for EndpointIds {
    fn default() -> Self {
        Self {
            next: EndpointId::FIRST,
            taken: Vec::new(),
        }
    }
}

impl EndpointIds {
    /// The next number, of a group of all endpoints. After the last one comes the first again: a
    /// client remembered by one so old was forgotten long ago. `in_use` lists the numbers in use then.
    pub(crate) fn take(&mut self, in_use: impl Fn(&mut Vec<EndpointId>)) -> EndpointId {
        loop {
            let id = self.next;
            self.next = match id.0 + 1 {
                next if next < EndpointId::LOCAL => EndpointId(next),
                _ => {
                    self.taken.clear();
                    in_use(&mut self.taken);
                    self.taken.iter_mut().for_each(|id| *id = id.base());
                    self.taken.sort_unstable();
                    EndpointId::FIRST
                }
            };
            if self.taken.binary_search(&id).is_err() {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up_and_come_round_past_those_in_use() {
        let first = EndpointId::FIRST.0;
        let mut ids = EndpointIds::default();
        let in_use = |list: &mut Vec<EndpointId>| {
            list.extend([first + 1, EndpointId(first).twin().0, first + 3].map(EndpointId));
        };
        assert_eq!(ids.take(in_use).0, first);
        assert_eq!(ids.take(in_use).0, first + 1);
        let end = EndpointId::LOCAL;
        ids.next = EndpointId(end - 2);
        let next: Vec<_> = (0..4).map(|_| ids.take(in_use).0).collect();
        assert_eq!(next, [end - 2, end - 1, first + 2, first + 4]);
    }

    #[test]
    fn what_happened_is_undone() {
        let target = |port| Target {
            port,
            ..Target::default()
        };
        let member = |port: u16| Member {
            target: target(port),
            id: EndpointId(u32::from(port)),
        };
        let mut sticky = Sticky::new(false, Vec::new(), Vec::new());
        let mut events = Vec::new();
        for port in [3, 1, 2] {
            events.push((member(port), sticky.join(member(port))));
        }
        let before = format!("{sticky:?}");
        let mut later = vec![sticky.leave(1), sticky.leave(0)];
        assert_eq!(sticky.member(target(2)), None);
        assert_eq!(sticky.id(target(2)), Some(EndpointId(2)));
        later.extend(sticky.come_back(target(2)));
        assert_eq!(sticky.member(target(2)), Some(EndpointId(2)));
        later.push(sticky.forget(0));
        assert_eq!(sticky.id(target(1)), None);
        for (member, event) in later.into_iter().rev() {
            sticky.undo(member, event);
        }
        assert_eq!(format!("{sticky:?}"), before);
        for (member, event) in events.into_iter().rev() {
            sticky.undo(member, event);
        }
        assert_eq!(sticky.all().count(), 0);
    }
}
