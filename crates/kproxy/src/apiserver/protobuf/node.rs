//! k8s.io/api/core/v1: `Node`.

use super::Message;
use super::wire::{ProtobufError, Value};
use crate::api::{Node, NodeAddress, NodeSpec, NodeStatus, Taint};

impl<'a> Message<'a> for Node<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.metadata),
            2 => value.merge(number, &mut self.spec),
            3 => value.merge(number, &mut self.status),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for NodeSpec<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.pod_cidr = value.text(number)?,
            5 => value.push(number, &mut self.taints)?,
            7 => self.pod_cidrs.push(value.str(number)?.into()),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Taint<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 1 {
            self.key = value.text(number)?;
        }
        Ok(())
    }
}

impl<'a> Message<'a> for NodeStatus<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            5 => value.push(number, &mut self.addresses),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for NodeAddress<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.kind = value.text(number)?,
            2 => self.address = value.text(number)?,
            _ => {}
        }
        Ok(())
    }
}
