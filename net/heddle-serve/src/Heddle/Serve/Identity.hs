{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Identity
-- Description : Request ids and trace contexts
-- Stability   : internal, exempt from the version policy
--
-- Gives each request an X-Request-Id that every reader of it sees, a server behind a proxy, a program and the log, and that is
-- sent back with its reply. A traceparent header is continued with a parent of its own; one that is malformed begins a new trace, and so
-- does a request without one, if that was asked for.
--
-- Cost: some hundred nanoseconds and a few hundred bytes a request; no system call. Nothing unless it was asked for.
-- Owner: one 'Identities' for each capability.
-- [Source]: W3C Trace Context, level 1, sections 3.2, 3.3 and 4.3.
module Heddle.Serve.Identity
  ( IdentityOptions (..),
    Identities,
    newIdentities,
    identified,
    identifiedAtOnce,

    -- * Parts, for tests
    isRequestId,
  )
where

import Control.Monad (void, when)
import Data.Bits (unsafeShiftR)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (unsafeCreateUptoN)
import Data.Char (isAsciiLower, isAsciiUpper, isDigit)
import Data.Maybe (isJust)
import Data.Word (Word64)
import Foreign.Ptr (castPtr, minusPtr)
import Heddle.Bytes.Hash (Hash (..), HashKey, newKey)
import Heddle.Bytes.Write (hexFixed, pokeWrite, writeBound)
import Heddle.Gateway.Proxy (Network, isWithin, peerAddressOf)
import Heddle.Http
import Heddle.Http.Borrowed (foldRequestHeaders)
import Heddle.Prim.Atomic (Words, fetchAdd, newWords)
import Heddle.Serve.Traceparent

-- | What requests are given.
data IdentityOptions = IdentityOptions
  { -- | An X-Request-Id.
    identityNames :: !Bool,
    -- | Begin a trace for a request without one, and record this share of them: 0 to 1.
    identityTraces :: !(Maybe Double),
    -- | Peers whose X-Request-Id is taken over.
    identityTrusted :: ![Network]
  }

-- | A generator of numbers that nobody outside can guess, nor count requests by: a counter, hashed under two keys.
data Identities = Identities !IdentityOptions !HashKey !HashKey !Words

-- | With keys of its own; 'Nothing' if requests are to be given nothing, and then they cost nothing.
--
-- [Cost]: two system calls.
newIdentities :: IdentityOptions -> IO (Maybe Identities)
newIdentities options
  | identityNames options || isJust (identityTraces options) = Just <$> (Identities options <$> newKey <*> newKey <*> newWords 1)
  | otherwise = pure Nothing

-- 128 bits that have not been given before.
fresh :: Identities -> IO (Word64, Word64)
fresh (Identities _ one two counter) = do
  n <- fetchAdd counter 0 1
  pure (hashWith one n, hashWith two n)

hexOf :: (Word64, Word64) -> ByteString
hexOf (high, low) = BI.unsafeCreateUptoN (writeBound written) (\p -> (`minusPtr` p) <$> pokeWrite written p)
  where
    written = hexFixed 16 high <> hexFixed 16 low

-- | A handler whose requests have ids. An id that the client sends is taken over from trusted peers only, so that
-- others cannot choose what stands in logs.
identified :: Identities -> Handler -> Handler
identified identities handler request = identify identities request >> handler request

-- | The same for a handler that answers at once. A request that it leaves to the main handler is identified again there, and has
-- the second id only.
identifiedAtOnce :: Identities -> (Request -> IO (Maybe Reply)) -> Request -> IO (Maybe Reply)
identifiedAtOnce identities handler request = identify identities request >> handler request

identify :: Identities -> Request -> IO ()
identify identities@(Identities options _ _ _) request = do
  when (identityNames options) $ do
    given <- if any (isWithin (peerAddressOf (peer request))) (identityTrusted options) then valuesOf request HeaderXRequestId else pure []
    name <- case given of
      [value] | isRequestId value -> pure value
      _ -> hexOf <$> fresh identities
    void (setRequestHeader request "X-Request-Id" name)
    replyWithHeader request "X-Request-Id" name
  given <- valuesOf request HeaderTraceparent
  case (given, identityTraces options) of
    ([value], _) | Just traced <- parseTraceparent value -> do
      (parent, _) <- newParent
      continue traced {traceParent = parent}
    -- It means nothing alone.
    ([], Nothing) -> alone
    (_, share) -> do
      trace <- hexOf . nonZero <$> fresh identities
      (parent, chance) <- newParent
      continue (Traceparent trace parent (maybe False (chance <) share))
      alone
  where
    continue = void . setRequestHeader request "traceparent" . renderTraceparent
    alone = removeRequestHeader request "tracestate"
    -- With a number from 0 to 1, for the choice whether it is recorded.
    newParent = (\both -> (C.take 16 (hexOf (nonZero both)), fromIntegral (snd both `unsafeShiftR` 11) / 9007199254740992 :: Double)) <$> fresh identities
    nonZero (high, low) = (max 1 high, low)

valuesOf :: Request -> KnownHeader -> IO [ByteString]
valuesOf request wanted = reverse <$> foldRequestHeaders request step []
  where
    step before known _ _ value n
      | known == fromEnum wanted = (: before) <$> B.packCStringLen (castPtr value, n)
      | otherwise = pure before

-- | Test whether an id may be taken over: 1 to 128 letters, digits and some marks that no log or header needs to escape.
isRequestId :: ByteString -> Bool
isRequestId value = not (B.null value) && B.length value <= 128 && C.all plain value
  where
    plain c = isAsciiLower c || isAsciiUpper c || isDigit c || c `elem` ("-_.~+/=:@" :: String)
