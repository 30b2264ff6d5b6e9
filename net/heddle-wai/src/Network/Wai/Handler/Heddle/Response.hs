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
  ( sendResponse,
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
import Network.Wai.Internal (Response (..), StreamingBody)

-- | Send a response of an exchange, with these further headers: the status and the bytes of
-- content sent, except for a raw response.
--
-- [Blocks]: parks.
-- [Throws]: what the response's own code throws; 'WaiMisuse', and the exceptions of 'replyNow'.
sendResponse :: Exchange -> [Header] -> Response -> IO (Maybe (Status, Int))
sendResponse exchange extra = \case
  ResponseBuilder status headers builder -> do
    code <- statusOf status
    let Fields fields len close = fieldsOf headers
    when close (closeAfterReply request)
    sent code . replyNow request $ case len of
      Nothing -> Built code (more fields) builder
      Just n -> StreamOf code (more fields) n (`writerBuild` builder)
  ResponseStream status headers body -> do
    code <- statusOf status
    let Fields fields len close = fieldsOf headers
    when close (closeAfterReply request)
    act <- streamBody exchange body
    sent code . replyNow request $ case len of
      Nothing -> Stream code (more fields) act
      Just n -> StreamOf code (more fields) n act
  ResponseFile status headers path part -> do
    code <- statusOf status
    let Fields fields _ close = fieldsOf headers
    when close (closeAfterReply request)
    -- Masked until the engine has the file.
    mask_ $ do
      reply <- fileReply request code (more fields) path part
      sent (replyStatus reply) (replyNow request reply)
  ResponseRaw raw backup -> do
    major <- httpMajor request
    if major == 2
      then sendResponse exchange extra backup
      else do
        lock <- newLock
        _ <- replyNow request . Tunnel Nothing $ \duplex ->
          raw (duplexReceive duplex) (withLock lock . duplexSend duplex)
        pure Nothing
  where
    request = exchangeRequest exchange
    more fields = if null extra then fields else extra ++ fields
    sent code send = (\n -> Just (code, n)) <$> send

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

-- An application's headers: what is sent of them, a Content-Length, and whether the connection shall
-- close.
data Fields = Fields ![Header] !(Maybe Int) !Bool

fieldsOf :: H.ResponseHeaders -> Fields
fieldsOf [] = Fields [] Nothing False
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
decimal :: ByteString -> Maybe Int
decimal value
  | not (B.null value) && B.length value < 19 && C.all isDigit value = fst <$> C.readInt value
  | otherwise = Nothing
