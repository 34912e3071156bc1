//! A typical contract: an ERC-20 token, and one call with a large argument. A feature selects the allocator.

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;
use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::sol;
use stylus_sdk::abi::Bytes;
use stylus_sdk::crypto::keccak;
use stylus_sdk::prelude::*;

#[cfg(feature = "glebe")]
#[global_allocator]
static ALLOC: glebe::Bump = glebe::Bump::INIT;

#[cfg(feature = "glebe-freelist")]
#[global_allocator]
static ALLOC: glebe::FreeList = glebe::FreeList::INIT;

#[cfg(feature = "wee_alloc")]
#[global_allocator]
static ALLOC: wee_alloc::WeeAlloc = wee_alloc::WeeAlloc::INIT;

sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Published(address indexed author, bytes32 digest, bytes document);

    error TooLittle(address owner, uint256 has, uint256 wanted);
    error NotAllowed(address spender, uint256 may, uint256 wanted);
}

sol_storage! {
    #[entrypoint]
    pub struct Token {
        uint256 supply;
        mapping(address => uint256) balances;
        mapping(address => mapping(address => uint256)) allowances;
    }
}

#[derive(SolidityError)]
pub enum Refusal {
    TooLittle(TooLittle),
    NotAllowed(NotAllowed),
}

impl Token {
    fn move_value(&mut self, from: Address, to: Address, value: U256) -> Result<(), Refusal> {
        let has = self.balances.get(from);
        if has < value {
            return Err(Refusal::TooLittle(TooLittle { owner: from, has, wanted: value }));
        }
        self.balances.insert(from, has - value);
        let had = self.balances.get(to);
        self.balances.insert(to, had + value);
        self.vm().log(Transfer { from, to, value });
        Ok(())
    }
}

#[public]
impl Token {
    pub fn name(&self) -> String {
        "A Token To Be Measured".into()
    }

    pub fn symbol(&self) -> String {
        "GLEBE".into()
    }

    pub fn decimals(&self) -> u8 {
        18
    }

    pub fn total_supply(&self) -> U256 {
        self.supply.get()
    }

    pub fn balance_of(&self, owner: Address) -> U256 {
        self.balances.get(owner)
    }

    pub fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.allowances.getter(owner).get(spender)
    }

    pub fn mint(&mut self, value: U256) {
        let to = self.vm().msg_sender();
        self.supply.set(self.supply.get() + value);
        let had = self.balances.get(to);
        self.balances.insert(to, had + value);
        self.vm().log(Transfer { from: Address::ZERO, to, value });
    }

    pub fn transfer(&mut self, to: Address, value: U256) -> Result<bool, Refusal> {
        self.move_value(self.vm().msg_sender(), to, value)?;
        Ok(true)
    }

    pub fn approve(&mut self, spender: Address, value: U256) -> bool {
        let owner = self.vm().msg_sender();
        self.allowances.setter(owner).insert(spender, value);
        self.vm().log(Approval { owner, spender, value });
        true
    }

    pub fn transfer_from(
        &mut self,
        from: Address,
        to: Address,
        value: U256,
    ) -> Result<bool, Refusal> {
        let spender = self.vm().msg_sender();
        let may = self.allowances.getter(from).get(spender);
        if may < value {
            return Err(Refusal::NotAllowed(NotAllowed { spender, may, wanted: value }));
        }
        self.allowances.setter(from).insert(spender, may - value);
        self.move_value(from, to, value)?;
        Ok(true)
    }

    /// Logs a document and returns its digest.
    pub fn publish(&mut self, document: Bytes) -> B256 {
        let document: Vec<u8> = document.into();
        let digest = keccak(&document);
        let author = self.vm().msg_sender();
        self.vm().log(Published { author, digest, document: document.into() });
        digest
    }
}
