{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Identity
-- Description : Request ids and trace contexts
-- Stability   : internal, exempt from the version policy
--
-- Gives each request an X-Request-Id that every reader of it sees, a server behind a proxy, a program and the log, and that is
-- sent back with its reply. A traceparent header is continued with a parent of its own; one that is malformed begins a new trace.
--
-- Cost: some hundred nanoseconds and a few hundred bytes a request; no system call. Nothing unless it was asked for.
-- Owner: one 'Identities' for each capability.
-- [Source]: W3C Trace Context, level 1, sections 3.2, 3.3 and 4.3.
module Heddle.Serve.Identity
  ( Identities,
    newIdentities,
    identified,
    identifiedAtOnce,

    -- * Parts, for tests
    continuedTrace,
    isRequestId,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (unsafeCreateUptoN)
import Data.Char (isAsciiLower, isAsciiUpper, isDigit)
import Data.Word (Word64)
import Foreign.Ptr (castPtr, minusPtr)
import Heddle.Bytes.Hash (Hash (..), HashKey, newKey)
import Heddle.Bytes.Write (hexFixed, pokeWrite, writeBound)
import Heddle.Gateway.Proxy (Network, isWithin, peerAddressOf)
import Heddle.Http
import Heddle.Http.Borrowed (foldRequestHeaders, hasHeader)
import Heddle.Prim.Atomic (Words, fetchAdd, newWords)

-- | A generator of numbers that nobody outside can guess, nor count requests by: a counter, hashed under two keys.
data Identities = Identities !HashKey !HashKey !Words

-- | With keys of its own.
--
-- [Cost]: two system calls.
newIdentities :: IO Identities
newIdentities = Identities <$> newKey <*> newKey <*> newWords 1

-- 128 bits that have not been given before.
fresh :: Identities -> IO (Word64, Word64)
fresh (Identities one two counter) = do
  n <- fetchAdd counter 0 1
  pure (hashWith one n, hashWith two n)

hexOf :: (Word64, Word64) -> ByteString
hexOf (high, low) = BI.unsafeCreateUptoN (writeBound written) (\p -> (`minusPtr` p) <$> pokeWrite written p)
  where
    written = hexFixed 16 high <> hexFixed 16 low

-- | A handler whose requests have ids. An id that the client sends is taken over from peers in these networks only, so that
-- others cannot choose what stands in logs.
identified :: [Network] -> Identities -> Handler -> Handler
identified trusted identities handler request = identify trusted identities request >> handler request

-- | The same for a handler that answers at once.
identifiedAtOnce :: [Network] -> Identities -> (Request -> IO (Maybe Reply)) -> Request -> IO (Maybe Reply)
identifiedAtOnce trusted identities handler request = identify trusted identities request >> handler request

identify :: [Network] -> Identities -> Request -> IO ()
identify trusted identities request = do
  given <- if any (isWithin (peerAddressOf (peer request))) trusted then valuesOf request HeaderXRequestId else pure []
  name <- case given of
    [value] | isRequestId value -> pure value
    _ -> hexOf <$> fresh identities
  void (setRequestHeader request "X-Request-Id" name)
  replyWithHeader request "X-Request-Id" name
  traced <- hasHeader request HeaderTraceparent
  if traced
    then do
      values <- valuesOf request HeaderTraceparent
      parent <- C.take 16 . hexOf . nonZero <$> fresh identities
      case values of
        [value] | Just continued <- continuedTrace parent value -> void (setRequestHeader request "traceparent" continued)
        _ -> do
          trace <- hexOf . nonZero <$> fresh identities
          void (setRequestHeader request "traceparent" (B.concat ["00-", trace, "-", parent, "-00"]))
          removeRequestHeader request "tracestate"
    else -- It means nothing alone.
      removeRequestHeader request "tracestate"
  where
    nonZero (high, low) = (max 1 high, low)

valuesOf :: Request -> KnownHeader -> IO [ByteString]
valuesOf request wanted = reverse <$> foldRequestHeaders request step []
  where
    step before known _ _ value n
      | known == fromEnum wanted = (: before) <$> B.packCStringLen (castPtr value, n)
      | otherwise = pure before

-- | Whether an id may be taken over: 1 to 128 letters, digits and some marks that no log or header needs to escape.
isRequestId :: ByteString -> Bool
isRequestId value = not (B.null value) && B.length value <= 128 && C.all plain value
  where
    plain c = isAsciiLower c || isAsciiUpper c || isDigit c || c `elem` ("-_.~+/=:@" :: String)

-- | What is passed on of a traceparent, with this parent id; 'Nothing' if it is not valid. A later version is answered in the
-- version known here, with the flag that it knows.
--
-- >>> continuedTrace "b7ad6b7169203331" "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
-- Just "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
continuedTrace :: ByteString -> ByteString -> Maybe ByteString
continuedTrace parent value
  | B.length value >= 55,
    C.index value 2 == '-' && C.index value 35 == '-' && C.index value 52 == '-',
    all (C.all isHex) [version, trace, before, flags],
    version /= "ff",
    C.any (/= '0') trace && C.any (/= '0') before,
    B.length value == 55 || (version /= "00" && C.index value 55 == '-') =
    Just (B.concat ["00-", trace, "-", parent, if odd (digit (C.last flags)) then "-01" else "-00"])
  | otherwise = Nothing
  where
    part from n = B.take n (B.drop from value)
    version = part 0 2
    trace = part 3 32
    before = part 36 16
    flags = part 53 2
    isHex c = isDigit c || (c >= 'a' && c <= 'f')
    -- In ASCII, a digit is as odd as its code; a letter, as the code less 1.
    digit c = fromEnum c + (if isDigit c then 0 else 1)
