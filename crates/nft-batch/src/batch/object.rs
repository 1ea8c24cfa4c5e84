//! Stateful objects and flowtables.

use nl_codec::msg::{Family, Head, NftMsg};
use nl_codec::nft::expr::ObjType;
use nl_codec::nft::{Flowtable, Obj};

use super::{Batch, by_name_or_handle, check_name, create, required};
use crate::order::Phase;
use crate::{BatchError, By, OpId};

impl Batch {
    /// Creates a stateful object, or changes its parameters.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_object(&mut self, family: Family, object: &Obj<'_>) -> Result<OpId, BatchError> {
        let what = "add object";
        required(what, "a table", object.table)?;
        required(what, "a name", object.name)?;
        check_name("object", object.name)?;
        let head = create(NftMsg::NEW_OBJ, family);
        self.push(what, Phase::AddObject, head, object)
    }

    /// Deletes a stateful object; names are unique among objects of one type.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_object(
        &mut self,
        family: Family,
        table: &str,
        kind: ObjType,
        object: By<'_>,
    ) -> Result<OpId, BatchError> {
        let mut body = by_name_or_handle!(Obj::default(), name, object);
        body.table = Some(table.into());
        body.kind = Some(kind);
        check_name("object", body.name)?;
        let head = Head::nft(NftMsg::DEL_OBJ, family);
        self.push("delete object", Phase::DeleteObject, head, &body)
    }

    /// Deletes a stateful object if it exists.
    ///
    /// # Errors
    /// [`BatchError::Unsupported`] on kernels without DESTROY messages.
    pub fn destroy_object(
        &mut self,
        family: Family,
        table: &str,
        kind: ObjType,
        name: &str,
    ) -> Result<OpId, BatchError> {
        let what = "destroy object";
        if !self.options.destroy {
            return Err(BatchError::Unsupported(what));
        }
        let body = Obj::named(table, name, kind);
        check_name("object", body.name)?;
        let head = Head::nft(NftMsg::DESTROY_OBJ, family);
        self.push(what, Phase::DeleteObject, head, &body)
    }

    /// Creates a flowtable, or adds devices to it.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_flowtable(
        &mut self,
        family: Family,
        flowtable: &Flowtable<'_>,
    ) -> Result<OpId, BatchError> {
        let what = "add flowtable";
        required(what, "a table", flowtable.table)?;
        required(what, "a name", flowtable.name)?;
        check_name("flowtable", flowtable.name)?;
        let head = create(NftMsg::NEW_FLOWTABLE, family);
        self.push(what, Phase::AddFlowtable, head, flowtable)
    }

    /// Deletes a flowtable.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_flowtable(
        &mut self,
        family: Family,
        table: &str,
        flowtable: By<'_>,
    ) -> Result<OpId, BatchError> {
        let mut body = by_name_or_handle!(Flowtable::default(), name, flowtable);
        body.table = Some(table.into());
        check_name("flowtable", body.name)?;
        let head = Head::nft(NftMsg::DEL_FLOWTABLE, family);
        self.push("delete flowtable", Phase::DeleteFlowtable, head, &body)
    }

    /// Deletes a flowtable if it exists.
    ///
    /// # Errors
    /// [`BatchError::Unsupported`] on kernels without DESTROY messages.
    pub fn destroy_flowtable(
        &mut self,
        family: Family,
        table: &str,
        name: &str,
    ) -> Result<OpId, BatchError> {
        let what = "destroy flowtable";
        if !self.options.destroy {
            return Err(BatchError::Unsupported(what));
        }
        let body = Flowtable::named(table, name);
        check_name("flowtable", body.name)?;
        let head = Head::nft(NftMsg::DESTROY_FLOWTABLE, family);
        self.push(what, Phase::DeleteFlowtable, head, &body)
    }
}
