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
import Heddle.Http (Header (..), Reply (..), Status, Writer (..), closeAfterReply, duplexReceive, duplexSend, replyNow, replyStatus, statusWith)
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
  ResponseBuilder status headers builder ->
    content status headers $ \code fields len -> pure $ case len of
      Nothing -> Built code fields builder
      Just n -> StreamOf code fields n (`writerBuild` builder)
  ResponseStream status headers body ->
    content status headers $ \code fields len -> do
      act <- streamBody exchange body
      pure (maybe (Stream code fields act) (\n -> StreamOf code fields n act) len)
  ResponseFile status headers path part ->
    -- Masked until the engine has the file.
    mask_ . content status headers $ \code fields _ -> fileReply request code fields path part
  ResponseRaw raw _ -> do
    lock <- newLock
    _ <- replyNow request . Tunnel Nothing $ \duplex ->
      raw (duplexReceive duplex) (withLock lock . duplexSend duplex)
    pure Nothing
  where
    request = exchangeRequest exchange
    content status headers make = do
      code <- statusOf status
      let fields = fieldsOf headers
      when (fieldsClose fields) (closeAfterReply request)
      reply <- make code (extra ++ fieldsSent fields) (fieldsLength fields)
      n <- replyNow request reply
      pure (Just (replyStatus reply, n))

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
  | code >= 200 && code <= 999 = pure $! statusWith code message
  | otherwise = throwIO (UnsendableStatus code)

-- An application's headers.
data Fields = Fields
  { fieldsSent :: ![Header],
    fieldsLength :: !(Maybe Int),
    -- | Whether the connection shall close.
    fieldsClose :: !Bool
  }

fieldsOf :: H.ResponseHeaders -> Fields
fieldsOf [] = Fields [] Nothing False
fieldsOf ((name, value) : others) = case B.length folded of
  10
    | folded == "connection" -> connection value rest
    | folded == "keep-alive" -> rest
  14 | folded == "content-length" -> rest {fieldsLength = decimal value}
  17 | folded == "transfer-encoding" -> rest
  _ -> rest {fieldsSent = Header (CI.original name) value : fieldsSent rest}
  where
    folded = CI.foldedCase name
    rest = fieldsOf others

-- The end of the connection is told by the engine; other options, such as Upgrade, are passed on.
connection :: ByteString -> Fields -> Fields
connection value fields =
  fields
    { fieldsClose = fieldsClose fields || "close" `elem` map lower options,
      fieldsSent = if null passed then fieldsSent fields else Header "Connection" (C.intercalate ", " passed) : fieldsSent fields
    }
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
