-- |
-- Module      : Heddle.Serve.Negotiate
-- Description : Which variant of a path a request gets
-- Stability   : internal, exempt from the version policy
--
-- Reads Accept-Encoding and Origin of requests to sites that depend on them. Browsers send few different
-- values, so each capability remembers the last ones and recognises them by comparison.
--
-- Cost: nothing for a site that does not negotiate; about 20 ns for a value that is remembered.
-- Owner: one capability.
-- Shared writes per request: 0.
module Heddle.Serve.Negotiate
  ( Memo,
    newMemo,
    variantOf,
  )
where

import Data.Bits ((.&.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Http
import Heddle.Http.Borrowed (withHeader)
import Heddle.Prim.Atomic (Ref, Table, newRef, newTable, readEntry, readRef, writeEntry, writeRef)
import Heddle.Serve.Coding
import Heddle.Serve.FileCache (sameBytes)
import Heddle.Serve.Policy

-- | Values of Accept-Encoding, and what they come to, each at a place that its length gives.
newtype Memo = Memo (Ref (Maybe (Table Known)))

data Known = Known !ByteString !Accepted

places :: Int
places = 32

-- | Nothing remembered yet.
newMemo :: IO Memo
newMemo = Memo <$> newRef Nothing

-- | The variant that a request gets.
--
-- [Blocks]: never.
variantOf :: Policy -> Memo -> Request -> IO Variant
variantOf policy memo request
  | policyNegotiates policy = negotiated policy memo request
  | otherwise = pure plainVariant
{-# INLINE variantOf #-}

negotiated :: Policy -> Memo -> Request -> IO Variant
negotiated policy memo request = do
  accepted <- if policySiblings policy then withHeader HeaderAcceptEncoding request (acceptedIn memo) else pure acceptsNothing
  origin <- case policyOrigins policy of
    _ : _ : _ -> originNumber policy <$> header request HeaderOrigin
    _ -> pure 0
  pure (variantWith origin accepted)
{-# NOINLINE negotiated #-}

acceptedIn :: Memo -> Ptr Word8 -> Int -> IO Accepted
acceptedIn (Memo memo) p n
  | n <= 0 = pure acceptsNothing
  | otherwise = do
    table <- readRef memo >>= maybe begun pure
    let place = n .&. (places - 1)
    Known text accepted <- readEntry table place
    same <- if B.length text == n then unsafeUseAsCStringLen text (\(q, _) -> sameBytes p (castPtr q) n) else pure False
    if same
      then pure accepted
      else do
        new <- B.packCStringLen (castPtr p, n)
        let found = acceptedOf new
        -- What is longer is no browser's.
        found <$ (if n <= 256 then found `seq` writeEntry table place (Known new found) else pure ())
  where
    begun = do
      table <- newTable places (Known B.empty acceptsNothing)
      table <$ writeRef memo (Just table)
