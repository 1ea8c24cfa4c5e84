//! k8s.io/api/discovery/v1: `EndpointSlice`.

use super::Message;
use super::wire::{ProtobufError, Value};
use crate::api::{Conditions, Endpoint, EndpointPort, EndpointSlice, Hints, TopologyHint};

impl<'a> Message<'a> for EndpointSlice<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.metadata)?,
            2 => value.push(number, &mut self.endpoints)?,
            3 => value.push(number, &mut self.ports)?,
            4 => self.address_type = value.text(number)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Endpoint<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.addresses.push(value.str(number)?.into()),
            2 => value.merge(number, &mut self.conditions)?,
            6 => self.node_name = value.text(number)?,
            8 => value.merge(number, &mut self.hints)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Conditions {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.ready = Some(value.bool(number)?),
            2 => self.serving = Some(value.bool(number)?),
            3 => self.terminating = Some(value.bool(number)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for Hints<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.push(number, &mut self.for_zones),
            2 => value.push(number, &mut self.for_nodes),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for TopologyHint<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 1 {
            // Written even if it is empty, in JSON as well.
            self.name = Some(value.str(number)?.into());
        }
        Ok(())
    }
}

impl<'a> Message<'a> for EndpointPort<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.name = value.text(number)?,
            2 => self.protocol = value.text(number)?,
            3 => self.port = Some(value.int(number)?),
            _ => {}
        }
        Ok(())
    }
}
