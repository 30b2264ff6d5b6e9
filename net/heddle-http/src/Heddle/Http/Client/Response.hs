{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Client.Response
-- Description : A response's head and content
-- Stability   : hidden; "Heddle.Http.Client" exports it
--
-- A 'Response' is a view of memory that its request has borrowed, so it can be used only until the
-- request's action has returned. After that its functions throw 'ResponseOver'.
--
-- Cost: a load or a copy for a header; a copy, or none, for a piece of content.
-- Owner: the thread that made the request.
module Heddle.Http.Client.Response
  ( Response,
    responseStatus,
    responseMinor,
    responseTunnel,
    takeTunnel,

    -- * Headers
    responseReason,
    responseHeader,
    responseHeaderNamed,
    responseHeaders,
    foldResponseHeaders,

    -- * Content
    contentLength,
    readResponsePiece,
    withResponsePiece,
    withResponsePieceAfter,
    withResponsePieceIf,
    contentAtHand,
    readWholeResponse,
    responseTrailers,
    releaseResponse,

    -- * For the client
    newResponse,
    newSwitched,
    endResponse,
    finishContent,
    keepAliveFor,
  )
where

import Control.Monad (when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI
import Data.ByteString.Unsafe (unsafePackCStringLen, unsafeUseAsCString)
import Data.Char (isDigit, toLower)
import Data.Maybe (fromMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, moveBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http.Chunked
import Heddle.Http.Client.Answer
import Heddle.Http.Client.Ask
import Heddle.Http.Client.Connect (failureOf)
import Heddle.Http.Client.Error
import Heddle.Http.Client.Exchange
import Heddle.Http.Client.Settings
import Heddle.Http.Duplex (Duplex, newDuplex)
import Heddle.Http.Head hiding (requestMethod)
import Heddle.Http.HeadLookup
import Heddle.Http.Settings (paceDeadline, paceKept)
import Heddle.Http.Status (Status, otherStatus)
import Heddle.Http.Workspace
import Heddle.Prim.Atomic (modifyRef, readRef)
import Heddle.Prim.Clock (Deadline (..), Nanos, milliseconds, monotonicNow, seconds)
import Heddle.Prim.Exception (mask_, throwIO, try)

-- | The answer to a request.
data Response = Response
  { -- | The status; its phrase is 'responseReason'.
    responseStatus :: !Status,
    -- | The y of HTTP/1.y.
    responseMinor :: !Int,
    -- | The connection, after 101 (Switching Protocols) or an agreed CONNECT. It closes when the request's
    -- action returns.
    responseTunnel :: !(Maybe Duplex),
    responseExchange :: !Exchange,
    responseHead :: !HeadMemory,
    -- | How the content is framed.
    responseContent :: !Content,
    -- | Returns the connection to its pool, once.
    responseReturn :: !(Response -> IO ())
  }

instance Show Response where
  showsPrec d response = showParen (d > 10) (showString "Response " . showsPrec 11 (responseStatus response))

-- Where the head lies.
data HeadMemory
  = InWorkspace
  | -- | A copy, for a tunnel, which needs no workspace.
    Apart !ByteString !HeadTable

-- | The response whose head the exchange has read, and what returns its connection.
newResponse :: Exchange -> Content -> (Response -> IO ()) -> IO Response
newResponse ex content returning = do
  let ws = exchangeWork ex
  code <- answerCode (workHead ws)
  minor <- minorVersion (workHead ws)
  set ws WorkLeft $ case content of
    SizedContent n -> n
    ChunkedContent -> chunkedLeft
    UntilClose -> closeLeft
    _ -> 0
  set ws WorkBodyBegan 0
  -- The peer's end is the content's.
  when (content == UntilClose) (setFlag ex FlagKeeps 0)
  case content of
    ChunkedContent -> resetChunkState (clientLimits (exchangeSettings ex)) (workChunks ws)
    _ -> pure ()
  pure (Response (otherStatus code) minor Nothing ex InWorkspace content returning)

-- | The response after which the connection carries another protocol. It holds nothing of the workspace.
newSwitched :: Exchange -> IO Response
newSwitched ex = do
  let ws = exchangeWork ex
      p = inputPtr ws
  base <- get ws WorkBase
  start <- get ws WorkStart
  end <- get ws WorkEnd
  code <- answerCode (workHead ws)
  minor <- minorVersion (workHead ws)
  headBytes <- copySlice p (Slice base (start - base))
  received <- copySlice p (Slice start (end - start))
  count <- headerCount (workHead ws)
  table <- newHeadTable count
  saveHead (workHead ws) >>= restoreHead table
  duplex <- newDuplex (exchangeTransport ex) (clientSendPace (exchangeSettings ex)) received
  pure (Response (otherStatus code) minor (Just duplex) ex (Apart headBytes table) Switched (\_ -> pure ()))

-- | The connection of 'responseTunnel', which is not closed any more when the request's action returns: the caller
-- closes its transport.
--
-- [Cost]: one store.
-- [Threads]: the thread that asked.
takeTunnel :: Response -> IO (Maybe Duplex)
takeTunnel response = do
  mapM_ (\_ -> setFlag (responseExchange response) FlagTaken 1) (responseTunnel response)
  pure (responseTunnel response)

chunkedLeft, closeLeft, cutLeft :: Int
chunkedLeft = -1
closeLeft = -2
-- The connection was closed because the content's end will not come.
cutLeft = -3

failing :: Response -> Failure -> IO a
failing response failure = throwIO (ClientError (requestOrigin request) (requestMethod request) (C.takeWhile (/= '?') (requestTarget request)) failure)
  where
    request = exchangeRequest (responseExchange response)

checkUsable :: Response -> IO ()
checkUsable response = do
  over <- flag (responseExchange response) FlagOver
  when (over == 1) (failing response ResponseOver)
{-# INLINE checkUsable #-}

-- | The response can be used no more.
endResponse :: Exchange -> IO ()
endResponse ex = setFlag ex FlagOver 1

-- Headers ------------------------------------------------------------------------------------

withHead :: Response -> (Ptr Word8 -> HeadTable -> IO a) -> IO a
withHead response use = do
  checkUsable response
  case responseHead response of
    Apart bytes table -> unsafeUseAsCString bytes $ \p -> use (castPtr p) table
    InWorkspace -> do
      let ws = exchangeWork (responseExchange response)
      base <- get ws WorkBase
      use (inputPtr ws `plusPtr` base) (workHead ws)

-- | The phrase after the status code, often empty.
--
-- [Throws]: 'ClientError'.
responseReason :: Response -> IO ByteString
responseReason response = withHead response $ \p table -> targetSlice table >>= copySlice p

-- | The value of a well-known header. A list on several lines is one list, so their values are joined with @, @ between; of
-- Set-Cookie, which is no list, this is the first.
--
-- [Cost]: two loads, and a copy; with several lines O(headers).
-- [Source]: RFC 9110, section 5.2.
-- [Throws]: 'ClientError'.
responseHeader :: Response -> KnownHeader -> IO (Maybe ByteString)
responseHeader response known = withHead response $ \p table -> lookupKnown p table known

-- | The value of a header, by name in any case; that of several lines as 'responseHeader' has it.
--
-- [Cost]: O(headers).
-- [Throws]: 'ClientError'.
responseHeaderNamed :: Response -> ByteString -> IO (Maybe ByteString)
responseHeaderNamed response name = withHead response $ \p table -> lookupHeader p table name

-- | All header lines in order.
--
-- [Cost]: O(bytes).
-- [Throws]: 'ClientError'.
responseHeaders :: Response -> IO [(ByteString, ByteString)]
responseHeaders response = withHead response $ \p table ->
  reverse <$> foldHeaders table (\acc n v -> (\a b -> (a, b) : acc) <$> copySlice p n <*> copySlice p v) []

-- | Fold over the header lines in order without copying: the code of a well-known name or -1, and address and length of
-- name and value. The addresses are valid until the step returns.
--
-- [Cost]: O(headers).
-- [Throws]: 'ClientError'.
foldResponseHeaders :: Response -> (a -> Int -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO a) -> a -> IO a
foldResponseHeaders response step start = withHead response $ \p table -> foldHeaderBytes p table step start
{-# INLINE foldResponseHeaders #-}

-- Content ------------------------------------------------------------------------------------

-- | How long the content is, if the head says: 0 for none.
contentLength :: Response -> Maybe Int
contentLength response = case responseContent response of
  SizedContent n -> Just n
  ChunkedContent -> Nothing
  UntilClose -> Nothing
  _ -> Just 0

-- | The next piece of the content; empty at its end.
--
-- [Cost]: a copy of the piece.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; reading can go on afterwards.
-- [Throws]: 'ClientError', also when the peer closes before the end.
readResponsePiece :: Response -> IO ByteString
readResponsePiece response = withResponsePiece response $ \p n -> BI.create n (\q -> copyBytes q p n)

-- | Give the next piece to an action, without a copy: its address and length, 0 at the end. The address is valid until
-- the action returns.
--
-- [Cost]: none but the system call, when the buffer is empty.
-- [Blocks]: parks.
-- [Masking]: interruptible while parked; the action runs in the caller's state.
-- [Throws]: as 'readResponsePiece'.
withResponsePiece :: Response -> (Ptr Word8 -> Int -> IO a) -> IO a
withResponsePiece response = withResponsePieceAfter response (pure ())
{-# INLINE withResponsePiece #-}

-- | 'withResponsePiece', doing the first action before each wait for the server: a gateway sends on what it has.
--
-- [Cost]: as 'withResponsePiece'.
-- [Blocks]: parks.
-- [Masking]: the first action runs masked.
-- [Throws]: as 'readResponsePiece'.
withResponsePieceAfter :: Response -> IO () -> (Ptr Word8 -> Int -> IO a) -> IO a
withResponsePieceAfter response waiting = withResponsePieceIf response (True <$ waiting)
{-# INLINE withResponsePieceAfter #-}

-- | 'withResponsePiece', asking the first action before each wait for the server whether to wait; the length is -1 if not.
--
-- [Cost]: as 'withResponsePiece'.
-- [Blocks]: parks.
-- [Masking]: the first action runs masked.
-- [Throws]: as 'readResponsePiece'.
withResponsePieceIf :: Response -> IO Bool -> (Ptr Word8 -> Int -> IO a) -> IO a
withResponsePieceIf response waits use = do
  checkUsable response
  let ws = exchangeWork (responseExchange response)
  (at, n) <- mask_ (nextPiece response waits Nothing)
  use (inputPtr ws `plusPtr` at) n
{-# INLINE withResponsePieceIf #-}

-- | The whole content, if its length was announced and all of it has been received together with the head; otherwise nothing is
-- read. The bytes are the response's memory, which is valid until the action that uses the response returns.
--
-- [Cost]: none.
-- [Blocks]: never.
-- [Throws]: 'ResponseOver'.
contentAtHand :: Response -> IO (Maybe ByteString)
contentAtHand response = do
  checkUsable response
  left <- get ws WorkLeft
  start <- get ws WorkStart
  end <- get ws WorkEnd
  case responseContent response of
    SizedContent n | left == n && end - start >= n -> do
      set ws WorkStart (start + n)
      set ws WorkLeft 0
      Just <$> unsafePackCStringLen (castPtr (inputPtr ws `plusPtr` start), n)
    _ -> pure Nothing
  where
    ws = exchangeWork (responseExchange response)

-- | The whole content; 'ContentTooLarge' if it is longer than this many bytes.
--
-- [Blocks]: parks.
-- [Throws]: 'ClientError'.
readWholeResponse :: Response -> Int -> IO ByteString
readWholeResponse response most
  | Just n <- contentLength response, n > most = failing response (ContentTooLarge most)
  | otherwise = go 0 []
  where
    go n pieces
      | n > most = failing response (ContentTooLarge most)
      | otherwise = do
        piece <- readResponsePiece response
        if B.null piece then pure (B.concat (reverse pieces)) else go (n + B.length piece) (piece : pieces)

-- | The fields behind content that came in chunks, once its end has been read; else none. Only their form was checked.
-- A server may leave them out unless the request has said @TE: trailers@.
--
-- [Cost]: O(bytes).
-- [Throws]: 'ClientError'.
responseTrailers :: Response -> IO [(ByteString, ByteString)]
responseTrailers response = do
  checkUsable response
  left <- get (exchangeWork (responseExchange response)) WorkLeft
  pieces <- readRef (exchangeTrailers (responseExchange response))
  pure [(name, trim (B.drop 1 value)) | left == 0, line <- C.lines (B.concat (reverse pieces)), let (name, value) = C.break (== ':') line]
  where
    trim = C.dropWhileEnd (`elem` (" \t\r" :: String)) . C.dropWhile (`elem` (" \t" :: String))

-- | Return the connection now, for other requests, instead of when the request's action returns, if all of the content has been read; close it
-- if reading the content has failed. Otherwise nothing happens. The head and the content of 'contentAtHand' can still be used.
--
-- [Cost]: that of returning it.
-- [Blocks]: never.
-- [Throws]: 'ResponseOver'.
-- [Threads]: the thread that asked.
releaseResponse :: Response -> IO ()
releaseResponse response = do
  checkUsable response
  left <- get ws WorkLeft
  wasCut <- flag ex FlagCut
  when (wasCut == 1) (set ws WorkLeft cutLeft >> setFlag ex FlagKeeps 0)
  when (left == 0 || wasCut == 1) (mask_ (responseReturn response response))
  where
    ex = responseExchange response
    ws = exchangeWork ex

-- Offset and length of the next piece in the input; length 0 at the end, and -1 if the action does not want to wait for one. With a
-- deadline, reading does not wait beyond it, instead of the pace.
nextPiece :: Response -> IO Bool -> Maybe Deadline -> IO (Int, Int)
nextPiece response waits limit = do
  left <- get ws WorkLeft
  case () of
    _
      | left == 0 -> pure (0, 0)
      | left == chunkedLeft -> chunked
      | left == closeLeft -> untilClose
      | left == cutLeft -> failing response ResponseOver
      | otherwise -> sized left
  where
    ws = exchangeWork (responseExchange response)
    received start next = waits >>= \wanted -> if wanted then fill response limit >>= next else pure (start, -1)
    sized left = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      if start == end
        then received start (\r -> if r == 0 then cut response (Ended ReadingContent) else sized left)
        else do
          let n = min left (end - start)
          set ws WorkStart (start + n)
          set ws WorkLeft (left - n)
          pure (start, n)
    chunked = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      before <- trailerBytes (workChunks ws)
      step <- chunkNext (workChunks ws) (inputPtr ws `plusPtr` start) (end - start)
      trailers <- trailersIn (workChunks ws) before step
      when (sliceLength trailers > 0) $ do
        piece <- copySlice (inputPtr ws `plusPtr` start) trailers
        modifyRef (exchangeTrailers (responseExchange response)) (\pieces -> (piece : pieces, ()))
      case step of
        ChunkMore used -> do
          set ws WorkStart (start + used)
          received start (\r -> if r == 0 then cut response (Ended ReadingContent) else chunked)
        ChunkData offset n -> do
          set ws WorkStart (start + offset + n)
          pure (start + offset, n)
        ChunkEnd used -> do
          set ws WorkStart (start + used)
          set ws WorkLeft 0
          pure (0, 0)
        ChunkReject _ reason -> cut response (BadAnswer (Malformed reason))
    untilClose = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      if start == end
        then received start (\r -> if r == 0 then (0, 0) <$ set ws WorkLeft 0 else untilClose)
        else do
          set ws WorkStart end
          pure (start, end - start)

-- The content's end will not come.
cut :: Response -> Failure -> IO a
cut response failure = setFlag (responseExchange response) FlagCut 1 >> failing response failure

-- Receive more of the content after the head: the count, 0 at the peer's end.
fill :: Response -> Maybe Deadline -> IO Int
fill response limit = do
  began <- get ws WorkBodyBegan
  now@(Deadline now') <- monotonicNow
  before <- get ws WorkBodyGot
  -- A new window whenever the last one kept the pace, so that a fast start does not excuse a later stall.
  when (began == 0 || paceKept pace (Deadline began) before now) $ do
    set ws WorkBodyBegan now'
    set ws WorkBodyGot 0
  makeRoom ws
  since <- get ws WorkBodyBegan
  got <- get ws WorkBodyGot
  let deadline = fromMaybe (paceDeadline pace (Deadline since) got) limit
  r <- takeIn ex (readAttended ex (earlier ex deadline))
  when (r > 0) (set ws WorkBodyGot (got + r))
  case () of
    _
      | r == GivenUpCode -> cut response GivenUp
      | r < 0 -> cut response (failureOf ReadingContent r)
      | otherwise -> pure r
  where
    ex = responseExchange response
    ws = exchangeWork ex
    pace = clientBodyPace (exchangeSettings ex)

-- The head stays where it is while there is room, and moves to the front when there is not. All input is consumed
-- when more is received, except a part of what frames chunks, which is consumed at once as well.
makeRoom :: Workspace -> IO ()
makeRoom ws = do
  base <- get ws WorkBase
  headBytes <- headLength (workHead ws)
  let size = inputSize ws
      p = inputPtr ws
  when (base > 0 && size - (base + headBytes) < 8192) $ do
    moveBytes p (p `plusPtr` base) headBytes
    set ws WorkBase 0
  base' <- get ws WorkBase
  set ws WorkStart (base' + headBytes)
  set ws WorkEnd (base' + headBytes)

-- | Whether the connection can take another request: drop what has arrived of the content, at most the
-- settings' amount, and see that nothing else has come.
--
-- [Blocks]: never.
-- [Masking]: the caller is masked.
finishContent :: Response -> IO Bool
finishContent response = do
  keeps <- flag ex FlagKeeps
  sent <- flag ex FlagSent
  left <- get ws WorkLeft
  if keeps == 0 || sent == 0 || left == closeLeft || left > most || requestClose request || not (B.null (requestPreamble request))
    then pure False
    else if left == 0 then nothingAfter else either (\(_ :: ClientError) -> False) id <$> try (drop' most)
  where
    ex = responseExchange response
    ws = exchangeWork ex
    request = exchangeRequest ex
    most = clientDiscard (exchangeSettings ex)
    nothingAfter = do
      start <- get ws WorkStart
      end <- get ws WorkEnd
      pure $! start == end
    drop' room = do
      left <- get ws WorkLeft
      case () of
        _
          | left == 0 -> nothingAfter
          | room < 0 -> pure False
          | otherwise -> do
            (_, n) <- nextPiece response (pure True) (Just (Deadline 0))
            drop' (room - n - (if n == 0 then 1 else 0))

-- | How long the connection may be unused: the settings' time, or less if the peer closes earlier.
--
-- [Cost]: one load without Keep-Alive.
keepAliveFor :: Exchange -> IO Nanos
keepAliveFor ex = do
  let ws = exchangeWork ex
      most = clientIdle (exchangeSettings ex)
  base <- get ws WorkBase
  value <- lookupKnown (inputPtr ws `plusPtr` base) (workHead ws) HeaderKeepAlive
  pure $ case value >>= timeoutOf of
    Nothing -> most
    -- Some time before the peer closes, so that no request meets the end.
    Just 0 -> mempty
    Just 1 -> min most (milliseconds 500)
    Just n -> min most (seconds (min n 1000000 - 1))

timeoutOf :: ByteString -> Maybe Int
timeoutOf value = case [n | part <- C.split ',' value, Just n <- [parameter (C.map toLower (trim part))]] of
  n : _ -> Just n
  [] -> Nothing
  where
    trim = C.dropWhile (`elem` (" \t" :: String))
    parameter part = do
      digits <- B.stripPrefix "timeout=" part
      let number = C.takeWhile isDigit digits
      if B.null number || B.length number > 9 then Nothing else fst <$> C.readInt number
