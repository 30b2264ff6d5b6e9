-- |
-- Module      : Heddle.Bytes.Hash
-- Description : Keyed hashing, safe against hash flooding
-- Stability   : stable
--
-- SipHash under a secret key. If the hash function is known (FNV, the identity, a fixed salt), an attacker can send a
-- server many keys with the same hash; each look-up then compares all of them, and the time grows with the square of
-- their number. Here the key is generated when the process first needs it, numbers are hashed like strings, and
-- 'Keyed' makes the tables of unordered-containers use it.
--
-- Hashes, and with them the order of tables, differ from run to run; nothing reproducible may depend on them.
--
-- Cost: SipHash-1-3; about 6 ns for a short value, 1.4 ns for every 8 bytes of a long string.
-- Owner: values; the key of the process is made once.
module Heddle.Bytes.Hash
  ( -- * Keys
    HashKey (..),
    processKey,
    newKey,
    keyFromBytes,

    -- * Any type
    Hash (..),

    -- ** Instances by hand
    Sip,
    absorbWord,
    absorbBytes,
    absorbList,

    -- * Strings
    sipHash13,
    sipHash24,
    sipHash13Lazy,
    sipHash24Lazy,

    -- ** Piece by piece
    Stream,
    Rounds (..),
    begin,
    update,
    finish,

    -- * Tables
    Keyed (..),
  )
where

import Data.Hashable (Hashable (..))
import Heddle.Bytes.Hash.Class
import Heddle.Bytes.Hash.String
import Heddle.Bytes.Internal.Foreign.Hash (endWords)
import Heddle.Bytes.Internal.Sip (start)

-- | A key of a hash table that is safe against flooding: @HashMap (Keyed Text) a@. Its 'Hashable'
-- instance is 'hashWith' under 'processKey' and ignores the 'Hashable' instance of the wrapped type.
--
-- The order of such a table ('Data.HashMap.Strict.toList' and all folds) changes with every
-- run of the program.
--
-- Law (@keyed@): a table with such keys behaves like a 'Data.Map.Map'.
newtype Keyed a = Keyed
  { -- | The key itself.
    unKeyed :: a
  }
  deriving stock (Eq, Ord, Read, Show)

-- | As the wrapped value.
instance Hash a => Hash (Keyed a) where
  absorb (Keyed x) = absorb x
  {-# INLINE absorb #-}
  hashWith key (Keyed x) = hashWith key x
  {-# INLINE hashWith #-}

-- | Hashes the salt and the value under 'processKey'.
instance Hash a => Hashable (Keyed a) where
  hash (Keyed x) = fromIntegral (hashWith processKey x)
  {-# INLINE hash #-}
  hashWithSalt salt (Keyed x) = fromIntegral (endWords (absorb x (absorb salt (start processKey))))
  {-# INLINE hashWithSalt #-}
