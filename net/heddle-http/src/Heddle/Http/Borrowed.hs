-- |
-- Module      : Heddle.Http.Borrowed
-- Description : A request's bytes without copying, and its connection
-- Stability   : stable
--
-- What a server that counts every copy needs besides "Heddle.Http": parts of the request
-- where the connection received them, and memory to format something about the request.
--
-- Invariant: an address is valid until the function that it was given to returns; what
-- stands there may be overwritten after the handler has returned.
-- Cost: a load or two; 0 bytes, but for a header on several lines.
-- Owner: the connection's thread.
module Heddle.Http.Borrowed
  ( -- * Parts of the request

    -- | Each function is given the address and the length of a part, as sent. A part that
    -- the request lacks has length 0.
    withMethod,
    withTarget,
    withPath,
    withHost,
    withHeader,
    withReceived,
    foldRequestHeaders,
    requestHeadBytes,
    requestLength,
    addedHeadersFrom,
    withBodyPiece,
    beforeBodyWaits,

    -- * Conditions
    hasHeader,
    isConditional,
    preconditions,

    -- * The connection
    requestConn,
    requestTransport,
    requestCapability,
    requestBegan,
    pauseRequestUntil,
    abortRequest,
    flushRequest,
    withScratch,
    scratchSize,
    noteUpstreamTime,
    upstreamTime,
    noteForLog,
    notedForLog,

    -- * Header lines of replies
    Lines (..),

    -- * Prebuilt replies
    prebuiltSize,
    prebuiltPart,
  )
where

import Control.Monad (void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Body (withBodyPiece)
import Heddle.Http.Conditional (Preconditions)
import Heddle.Http.Head (HeadTable, Slice (..), effectiveHost, foldHeaderBytes, headLength, knownCount, knownSlice, methodSlice, pathSlice, targetSlice)
import Heddle.Http.HeadLookup (lookupKnown)
import Heddle.Http.Names (KnownHeader)
import Heddle.Http.Preconditions
import Heddle.Http.Reply (Lines (..), Prebuilt (..))
import Heddle.Http.Request (Request (..), noteForLog, noteUpstreamTime, notedForLog, requestConn, upstreamTime, withHead)
import Heddle.Http.Workspace
import Heddle.IO.Registration (closeRegistration, pauseUntil)
import Heddle.Prim.Atomic (readRef)
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock (Deadline)

withSlice :: (HeadTable -> IO Slice) -> Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withSlice part request use = withHead request $ \p table -> do
  Slice offset n <- part table
  use (p `plusPtr` offset) n
{-# INLINE withSlice #-}

-- | The method.
withMethod :: Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withMethod = withSlice methodSlice
{-# INLINE withMethod #-}

-- | The whole target.
withTarget :: Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withTarget = withSlice targetSlice
{-# INLINE withTarget #-}

-- | The path, still escaped, without the query.
withPath :: Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withPath = withSlice pathSlice
{-# INLINE withPath #-}

-- | The requested host and port: of an absolute target or @:authority@, else of the Host header.
withHost :: Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withHost = withSlice effectiveHost
{-# INLINE withHost #-}

-- | The value of a well-known header, of several lines as 'Heddle.Http.header' has it; then its bytes are a copy that goes with
-- the action's end. Empty without one.
--
-- [Cost]: some loads; with several lines a copy.
withHeader :: KnownHeader -> Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withHeader known request use = withHead request $ \p table -> do
  count <- knownCount table known
  if count > 1
    then lookupKnown p table known >>= \value -> unsafeUseAsCStringLen (fromMaybe B.empty value) (\(from, n) -> use (castPtr from) n)
    else knownSlice table known >>= \(Slice offset n) -> use (p `plusPtr` offset) n
{-# INLINE withHeader #-}

-- | Everything received since the request began, also when it was refused before its parts
-- were known ('Heddle.Http.LoggedGarbage').
withReceived :: Request -> (Ptr Word8 -> Int -> IO a) -> IO a
withReceived request use = do
  base <- get (requestWork request) WorkBase
  end <- get (requestWork request) WorkEnd
  use (inputPtr (requestWork request) `plusPtr` base) (max 0 (end - base))
{-# INLINE withReceived #-}

-- | Fold over the header lines in order without copying: the code of a well-known name or -1, and address and length of
-- name and value. The addresses are valid until the handler returns.
--
-- [Cost]: O(headers).
foldRequestHeaders :: Request -> (a -> Int -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO a) -> a -> IO a
foldRequestHeaders request step start = withHead request $ \p table -> foldHeaderBytes p table step start
{-# INLINE foldRequestHeaders #-}

-- | How long the head is, with the headers that were added.
--
-- [Cost]: one load.
-- [Units]: bytes.
requestHeadBytes :: Request -> IO Int
requestHeadBytes request = (+) <$> withHead request (\_ table -> headLength table) <*> addedBytes (requestWork request)

-- | How long the request is: its head as it was received (of HTTP/2, as HTTP/1.1 spells it), and what was read or dropped of
-- its content, without the chunks' framing.
--
-- [Cost]: two loads.
-- [Units]: bytes.
requestLength :: Request -> IO Int
requestLength request = (+) <$> withHead request (\_ table -> headLength table) <*> get (requestWork request) WorkBodyTotal

-- | Where the headers begin that were added to the request ('Heddle.Http.setRequestHeader'). Those that the client has sent
-- lie before this address.
--
-- [Cost]: none.
addedHeadersFrom :: Request -> Ptr Word8
addedHeadersFrom request = inputPtr (requestWork request) `plusPtr` inputSize (requestWork request)

-- | Whether the request has a well-known header.
--
-- [Cost]: one load.
hasHeader :: Request -> KnownHeader -> IO Bool
hasHeader request known = withHead request $ \_ table -> (> 0) <$> knownCount table known
{-# INLINE hasHeader #-}

-- | Whether the request has any header that 'preconditions' reads.
--
-- [Cost]: five loads.
isConditional :: Request -> IO Bool
isConditional request = withHead request (\_ table -> hasPreconditions table)
{-# INLINE isConditional #-}

-- | The conditional headers, for 'Heddle.Http.Conditional.evaluate'.
--
-- [Cost]: five loads without any, otherwise copies their values.
preconditions :: Request -> IO Preconditions
preconditions request = withHead request preconditionsOf

-- | Wait, at most until then; for a handler, or a log hook, that must try something again later.
--
-- [Blocks]: parks.
-- [Masking]: interruptible.
-- [Threads]: the handler's.
pauseRequestUntil :: Request -> Deadline -> IO ()
pauseRequestUntil request deadline =
  readRef (workSource (requestWork request)) >>= \case
    NoSource -> pauseUntil (requestConn request) deadline
    Source _ pause _ -> pause deadline

-- | The same request, which does this before it waits for more of the body, and ten times a second while it waits. Not with HTTP/2, whose requests do not tell whether a
-- piece is at hand.
--
-- [Cost]: an allocation.
beforeBodyWaits :: IO () -> Request -> Request
beforeBodyWaits act request = request {requestFlush = requestFlush request >> act, requestPolls = True}

-- | Send what earlier replies have left to be sent together with this one, and 100 Continue if the client waits for it.
--
-- [Blocks]: parks.
-- [Throws]: when the client is gone, an 'Heddle.Http.HttpException'.
-- [Threads]: the handler's, before it replies.
flushRequest :: Request -> IO ()
flushRequest = requestFlush

-- | Give the request up, whatever is under way for it: reading its body and writing its reply fail, and
-- the client is told so. With HTTP/1 this closes the connection.
--
-- [Blocks]: never.
-- [Threads]: any, until the handler has returned.
abortRequest :: Request -> IO ()
abortRequest request =
  readRef (workSource (requestWork request)) >>= \case
    NoSource -> void (closeRegistration (requestConn request))
    Source _ _ abort -> abort

-- | Memory of the workspace in which to format something about the request, such as its log
-- line: of 'scratchSize' bytes, of undefined content.
withScratch :: Request -> (Ptr Word8 -> IO a) -> IO a
withScratch request = withBuffer (workScratch (requestWork request))
{-# INLINE withScratch #-}

-- | The size of the memory that 'withScratch' lends.
--
-- [Units]: bytes.
scratchSize :: Request -> Int
scratchSize = bufferSize . workScratch . requestWork

-- | A copy of some of a prebuilt reply's content: offset and length. Precondition: the
-- content has these bytes.
--
-- [Cost]: a copy.
prebuiltPart :: Prebuilt -> Int -> Int -> IO ByteString
prebuiltPart reply offset n = withBuffer (prebuiltBuffer reply) $ \p ->
  B.packCStringLen (castPtr p `plusPtr` (prebuiltHead reply + offset), n)
