//! A dump of a set's elements that may rest between datagrams, on a connection of its own.

use nl_codec::msg::{Family, Flags, Head, NftMsg};
use nl_codec::nft::{Elem, ElemList};

use crate::transport::Transport;
use crate::{Connection, QueryError};

const WHAT: &str = "walk over elements";

/// Walks over the elements of one set after the other. The kernel holds no lock between two datagrams,
/// so a walk may rest as long as one likes; what changes meanwhile may be seen or not, and an element may
/// be missed or seen twice then.
#[derive(Debug)]
pub struct ElementWalk<T> {
    connection: Connection<T>,
    seq: u32,
    generation: u32,
    consistent: bool,
    ended: bool,
}

/// What a step of an [`ElementWalk`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    /// There is more.
    On,
    /// That was the last.
    Done {
        /// Nobody committed between its begin and its end: all were seen, each once.
        consistent: bool,
    },
}

impl<T: Transport> ElementWalk<T> {
    /// Takes the connection for walks alone: one that rests is in the way of all other requests.
    #[must_use]
    pub const fn new(connection: Connection<T>) -> Self {
        Self {
            connection,
            seq: 0,
            generation: 0,
            consistent: true,
            ended: true,
        }
    }

    /// Begins a walk over the elements of one set; one that has not come to its end is given up.
    ///
    /// # Errors
    /// See [`QueryError`]. That there is no such table or set shows with the first step.
    pub fn begin(&mut self, family: Family, table: &str, set: &str) -> Result<(), QueryError> {
        if !self.ended {
            self.connection.drain(self.seq);
            self.ended = true;
        }
        self.generation = self.connection.generation()?;
        let head = Head::nft(NftMsg::GET_SETELEM, family).with_flags(Flags::DUMP);
        let request = ElemList::named(table, set);
        self.seq = self.connection.send_request(WHAT, &head, &request)?;
        (self.consistent, self.ended) = (true, false);
        Ok(())
    }

    /// Hands the elements of the next datagram, some hundreds, to `each`.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT if the table or set does not exist.
    pub fn step(&mut self, mut each: impl FnMut(&Elem<'_>)) -> Result<Walked, QueryError> {
        if self.ended {
            return Ok(Walked::Done {
                consistent: self.consistent,
            });
        }
        let low = self.generation.to_be_bytes();
        let low = u16::from_be_bytes([low[2], low[3]]);
        let mut same = true;
        let replied = self
            .connection
            .reply(WHAT, self.seq, true, &mut self.ended, |msg| {
                same &= msg.nfgen.res_id == low;
                let list = msg.body::<ElemList<'_>>()?;
                for elem in list.elems.iter().flatten() {
                    each(&elem?);
                }
                Ok(())
            });
        let interrupted = replied?;
        self.consistent &= same && !interrupted;
        if !self.ended {
            return Ok(Walked::On);
        }
        self.consistent &= self.connection.generation()? == self.generation;
        Ok(Walked::Done {
            consistent: self.consistent,
        })
    }
}
