-- |
-- Module      : Heddle.Bytes.Hash.Plain
-- Description : SipHash in Haskell, without C
-- Stability   : stable
--
-- The hashes of "Heddle.Bytes.Hash" without its C kernels, which tests and benchmarks compare with the kernels.
-- Programs use "Heddle.Bytes.Hash", which computes the same hashes faster.
--
-- Cost: GHC's code generator has no rotation, so a round takes about twice the instructions of the C kernel's.
-- Owner: values.
module Heddle.Bytes.Hash.Plain
  ( plainSipHash13,
    plainSipHash24,
  )
where

import Data.ByteString (ByteString)
import Data.Word (Word64)
import Heddle.Bytes.Internal.Sip (HashKey, plainHash, start)

-- | SipHash-1-3.
--
-- [Cost]: O(bytes); 0 bytes.
--
-- Law (@plain@): equals 'Heddle.Bytes.Hash.sipHash13'.
plainSipHash13 :: HashKey -> ByteString -> Word64
plainSipHash13 key = plainHash 1 (start key)
{-# INLINE plainSipHash13 #-}

-- | SipHash-2-4.
--
-- [Cost]: O(bytes); 0 bytes.
--
-- Law (@plain@): equals 'Heddle.Bytes.Hash.sipHash24'.
plainSipHash24 :: HashKey -> ByteString -> Word64
plainSipHash24 key = plainHash 2 (start key)
{-# INLINE plainSipHash24 #-}
