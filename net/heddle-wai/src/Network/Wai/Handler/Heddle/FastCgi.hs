{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Network.Wai.Handler.Heddle.FastCgi
-- Description : A WAI application behind a web server, by FastCGI
-- Stability   : stable
--
-- > main :: IO ()
-- > main = runFastCgi application
--
-- serves the socket that a web server, or spawn-fcgi, gives as descriptor 0; 'runFastCgiOn' listens itself. Each
-- connection has a thread and serves one request after the other, on all cores.
--
-- Cost: a thread for each connection; two system calls for a small request.
-- Owner: the connection's thread.
-- [Source]: FastCGI specification 1.0; Mighttpd, section on WAI.
module Network.Wai.Handler.Heddle.FastCgi
  ( runFastCgi,
    runFastCgiOn,
    serveFastCgi,
    programVariables,
  )
where

import Control.Monad (unless, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, toLazyByteString)
import Data.ByteString.Lazy qualified as L
import Heddle.Gateway.FastCgi.Record
import Heddle.IO
import Heddle.Prim.Atomic
import Heddle.Prim.Exception
import Heddle.Prim.Message (putErrorLine)
import Network.Socket (SockAddr)
import Network.Wai (Application)
import Network.Wai.Handler.Heddle.Variables

-- | Serve the connections of the listening socket that is descriptor 0, until an exception ends it.
--
-- [Blocks]: parks.
-- [Throws]: 'IOError' if descriptor 0 is no listening socket.
runFastCgi :: Application -> IO ()
runFastCgi application = withRuntime defaultConfig $ \runtime -> do
  bracket (adoptListener runtime 0) closeListener (`serveFastCgi` application)

-- | Listen at an address and serve, until an exception ends it.
--
-- [Blocks]: parks.
-- [Throws]: 'IOError' when the address cannot be listened on.
runFastCgiOn :: SockAddr -> Application -> IO ()
runFastCgiOn address application = withRuntime defaultConfig $ \runtime ->
  withListener runtime defaultListenOptions address (`serveFastCgi` application)

-- | Serve the connections of a listener, until it is closed or an exception ends it.
--
-- [Blocks]: parks.
serveFastCgi :: Listener -> Application -> IO ()
serveFastCgi listener application = serveEach listener (connection application)

-- A connection, and what was received and not used.
data Link = Link !Conn !(Ref ByteString)

-- The web server has gone, or speaks another protocol: there is nobody to answer.
data LinkLost = LinkLost
  deriving stock (Show)

instance Exception LinkLost

connection :: Application -> Conn -> IO ()
connection application conn = do
  link <- Link conn <$> newRef B.empty
  requests application link `catch` \LinkLost -> pure ()

requests :: Application -> Link -> IO ()
requests application link = do
  Record kind request content <- nextRecord link
  case kind of
    BeginRequest -> case readBegin content of
      Just (role, keep)
        | role == Responder -> do
          on <- serveOne application link request
          when (on && keep) (requests application link)
        | otherwise -> tell link (renderEndRequest request 0 UnknownRole) >> when keep (requests application link)
      Nothing -> throwIO LinkLost
    -- The rest of a request that has ended.
    _ | kind `elem` [AbortRequest, Params, Stdin, Data] -> requests application link
    _ -> manage link kind content >> requests application link

-- Records that concern no request.
manage :: Link -> RecordType -> ByteString -> IO ()
manage link kind content = case kind of
  GetValues -> do
    let known = [("FCGI_MAX_CONNS", "1000"), ("FCGI_MAX_REQS", "1000"), ("FCGI_MPXS_CONNS", "0")]
        asked = maybe [] (map fst) (readPairs content)
    tell link (renderRecord GetValuesResult 0 (build (renderPairs [v | v@(name, _) <- known, name `elem` asked])))
  other -> tell link (renderUnknownType other)

-- What a request's next record of a stream is.
data Next = More !ByteString | Aborted

-- A record of this stream; others are dealt with on the way.
nextOf :: Link -> Int -> RecordType -> IO Next
nextOf link request wanted = do
  Record kind number content <- nextRecord link
  case () of
    _
      | kind == wanted && number == request -> pure (More content)
      | kind == AbortRequest && number == request -> pure Aborted
      | number == 0 -> manage link kind content >> again
      -- One request at a time.
      | kind == BeginRequest && number /= request -> tell link (renderEndRequest number 0 CannotMultiplex) >> again
      | number /= request -> again
      | otherwise -> throwIO LinkLost
  where
    again = nextOf link request wanted

-- The most bytes of parameters.
mostParams :: Int
mostParams = 1048576

-- 'False' if the connection cannot be used again.
serveOne :: Application -> Link -> Int -> IO Bool
serveOne application link request =
  params 0 [] >>= \case
    Nothing -> ending
    Just pieces -> case readPairs (B.concat pieces) of
      Nothing -> throwIO LinkLost
      Just variables -> do
        over <- newRef False
        let body = do
              done <- readRef over
              if done
                then pure B.empty
                else
                  nextOf link request Stdin >>= \case
                    More piece -> piece <$ when (B.null piece) (writeRef over True)
                    Aborted -> writeRef over True >> throwIO LinkLost
        pending <- newRef (0 :: Int, mempty)
        let flush = do
              (_, records) <- readRef pending
              writeRef pending (0, mempty)
              tell link records
            -- Small pieces go out together.
            add chunk = do
              (n, records) <- readRef pending
              let n' = n + B.length chunk
              writeRef pending (n', records <> renderStream Stdout request chunk)
              when (n' >= 32768) flush
            put = mapM_ add . L.toChunks . toLazyByteString
        wai <- requestOf variables body
        whole <- answerWith report application (Sink put flush) wai
        if whole
          then do
            done <- readRef over
            -- What is left of the body is passed over, so that the next request begins where it does.
            unless done (rest body)
            (_, records) <- readRef pending
            True <$ tell link (records <> endOf)
          else -- The client must not take the part for the whole: the connection ends without the request's end.
            pure False
  where
    ending = True <$ tell link endOf
    endOf = renderEnd Stdout request <> renderEndRequest request 0 RequestComplete
    params :: Int -> [ByteString] -> IO (Maybe [ByteString])
    params n pieces = do
      when (n > mostParams) (throwIO LinkLost)
      nextOf link request Params >>= \case
        Aborted -> pure Nothing
        More piece
          | B.null piece -> pure (Just (reverse pieces))
          | otherwise -> params (n + B.length piece) (piece : pieces)
    rest body = body >>= \piece -> unless (B.null piece) (rest body)
    report e = case fromException e of
      Just LinkLost -> pure ()
      Nothing -> do
        let text = describeException e
        putErrorLine text

build :: Builder -> ByteString
build = L.toStrict . toLazyByteString

tell :: Link -> Builder -> IO ()
tell (Link conn _) builder = do
  deadline <- deadlineIn (seconds 60)
  sendAllUntil conn (build builder) deadline >>= \case
    Sent -> pure ()
    _ -> throwIO LinkLost

nextRecord :: Link -> IO Record
nextRecord link@(Link conn input) = do
  bytes <- readRef input
  case takeRecord bytes of
    Taken record rest -> record <$ writeRef input rest
    NotFastCgi -> throwIO LinkLost
    TakeMore ->
      recvUntil conn 65536 never >>= \case
        Got more -> writeRef input (if B.null bytes then more else bytes <> more) >> nextRecord link
        _ -> throwIO LinkLost
