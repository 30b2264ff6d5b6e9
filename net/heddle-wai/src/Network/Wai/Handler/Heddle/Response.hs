{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.Response
-- Description : WAI's responses as the engine's replies
-- Stability   : hidden
--
-- The framing of a message is the engine's. An application's Content-Length is announced and held
-- to; its Transfer-Encoding, and the parts of Connection that speak about the connection's end, are
-- taken as wishes and not sent.
--
-- Cost: 48 bytes per header; a builder writes into the connection's output.
-- Owner: the thread that responds.
module Network.Wai.Handler.Heddle.Response
  ( Prepared,
    prepareResponse,
    Sent (..),
    sendPrepared,
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.CaseInsensitive qualified as CI
import Data.Char (isDigit, toLower)
import Heddle.Http (Header (..), Reply (..), Status, Writer (..), closeAfterReply, duplexReceive, duplexSend, httpMajor, replyNow, replyStatus, statusWith)
import Heddle.Http qualified as Http
import Heddle.Prim.Exception
import Heddle.Prim.Lock (newLock, withLock)
import Network.HTTP.Types qualified as H
import Network.Wai.Handler.Heddle.Exchange
import Network.Wai.Handler.Heddle.File
import Network.Wai.Handler.Heddle.Invalid
import Network.Wai.Internal (FilePart, Response (..), StreamingBody)

-- | A response whose status and headers are computed.
data Prepared
  = -- | As a reply.
    Prepared !Reply
  | -- | The same, and the connection shall close after it.
    PreparedLast !Reply
  | -- | Whether the connection shall close, and what describes a file, which is opened when it is sent.
    PreparedFile !Bool !Status ![Header] !FilePath !(Maybe FilePart)
  | -- | A raw response, and what prepares the one that is sent where there can be none.
    PreparedRaw !(IO ByteString -> (ByteString -> IO ()) -> IO ()) !(IO Prepared)

-- | What was sent, for the log.
data Sent
  = -- | The status, and how many bytes of content.
    Sent !Status !Int
  | -- | A raw response.
    SentRaw

-- | Compute what a response's own code says of its head, in the caller's masking state; nothing of the connection is used. The
-- headers given come first.
--
-- [Throws]: what the response's own code throws; 'WaiMisuse'.
prepareResponse :: Exchange -> [Header] -> Response -> IO Prepared
prepareResponse exchange extra = \case
  ResponseBuilder status headers builder -> do
    code <- statusOf status
    let Fields fields len close = fieldsOf headers
    pure $! prepared close $! if len < 0 then Built code (more fields) builder else BuiltOf code (more fields) len builder
  ResponseStream status headers body -> do
    code <- statusOf status
    let Fields fields len close = fieldsOf headers
    act <- streamBody exchange body
    pure $! prepared close $! if len < 0 then Stream code (more fields) act else StreamOf code (more fields) len act
  ResponseFile status headers path part -> do
    code <- statusOf status
    let Fields fields _ close = fieldsOf headers
    pure $! PreparedFile close code (more fields) path part
  ResponseRaw raw backup -> pure $! PreparedRaw raw (prepareResponse exchange extra backup)
  where
    prepared close = if close then PreparedLast else Prepared
    more fields = if null extra then fields else extra ++ fields

-- | Send it. The caller uses the connection ('enter') and is masked.
--
-- [Blocks]: parks.
-- [Masking]: waits are interruptible; the response's own code runs as the engine says.
-- [Throws]: what the response's own code throws; 'WaiMisuse', and the exceptions of 'replyNow'.
sendPrepared :: Exchange -> Prepared -> IO Sent
sendPrepared exchange = \case
  Prepared reply -> whole reply
  PreparedLast reply -> closeAfterReply request >> whole reply
  PreparedFile close code fields path part -> do
    when close (closeAfterReply request)
    fileReply request code fields path part >>= whole
  PreparedRaw raw backup -> do
    major <- httpMajor request
    if major == 2
      then backup >>= sendPrepared exchange
      else do
        lock <- newLock
        _ <- replyNow request . Tunnel Nothing $ \duplex ->
          raw (duplexReceive duplex) (withLock lock . duplexSend duplex)
        pure SentRaw
  where
    request = exchangeRequest exchange
    -- The status is taken out before the reply is sent, which would otherwise keep content that is lazy.
    whole reply = let !status = replyStatus reply in Sent status <$> replyNow request reply

-- A stream's body may write from any thread; its writers take turns, and write nothing after it has
-- ended. It runs in the masking state of the application's call.
streamBody :: Exchange -> StreamingBody -> IO (Writer -> IO ())
streamBody exchange body = do
  lock <- newLock
  state <- getMaskingState
  let inState = case state of
        Unmasked -> id
        MaskedInterruptible -> mask_
        MaskedUninterruptible -> uninterruptibleMask_
      turn act = using exchange late . withLock lock $ do
        now <- progress exchange
        unless (now == Responding) late
        act
      late = throwIO Http.WrittenLate
  pure (\writer -> inState (body (turn . writerBuild writer) (turn (writerFlush writer))))

statusOf :: H.Status -> IO Status
statusOf (H.Status code message)
  | code == 200 && message == "OK" = pure Http.status200
  | code >= 200 && code <= 999 = pure $! statusWith code message
  | otherwise = throwIO (UnsendableStatus code)

-- An application's headers: what is sent of them, the Content-Length or -1, and whether the connection shall
-- close.
data Fields = Fields ![Header] !Int !Bool

fieldsOf :: H.ResponseHeaders -> Fields
fieldsOf [] = Fields [] (-1) False
fieldsOf ((name, value) : others) = case B.length folded of
  10
    | folded == "connection" -> connection value rest
    | folded == "keep-alive" -> rest
  14 | folded == "content-length", Fields sent _ close <- rest -> Fields sent (decimal value) close
  17 | folded == "transfer-encoding" -> rest
  _ | Fields sent len close <- rest -> Fields (Header (CI.original name) value : sent) len close
  where
    folded = CI.foldedCase name
    !rest = fieldsOf others

-- The end of the connection is told by the engine; other options, such as Upgrade, are passed on.
connection :: ByteString -> Fields -> Fields
connection value (Fields sent len close) =
  Fields
    (if null passed then sent else Header "Connection" (C.intercalate ", " passed) : sent)
    len
    (close || "close" `elem` map lower options)
  where
    options = filter (not . B.null) (map trim (C.split ',' value))
    passed = filter ((`notElem` ["close", "keep-alive"]) . lower) options
    lower = C.map toLower
    trim = C.dropWhileEnd (== ' ') . C.dropWhile (== ' ')

-- A length that is none is left out, and the content is framed without it.
decimal :: ByteString -> Int
decimal value
  | not (B.null value) && B.length value < 19 && C.all isDigit value = B.foldl' (\n digit -> 10 * n + fromIntegral digit - 48) 0 value
  | otherwise = -1
