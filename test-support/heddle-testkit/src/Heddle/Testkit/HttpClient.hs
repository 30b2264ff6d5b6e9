{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Testkit.HttpClient
-- Description : An HTTP client that sends exactly what it is given
-- Stability   : internal, exempt from the version policy
--
-- Sends any bytes, cut as the test wishes, and reads replies strictly: a malformed reply, a
-- reset, or silence of 'patience' is 'Unexpected', with what was expected and what came. It stands on the network
-- package, not on Heddle's sockets, so that a fault of theirs does not hide on both sides.
--
-- Owner: one thread per client.
-- Cost: each receive appends to what was received before, which is quadratic in the length of a head.
module Heddle.Testkit.HttpClient
  ( -- * Connections
    Client,
    withClient,

    -- * Sending
    say,
    sayPieces,
    finish,
    abort,

    -- * Hearing
    Answer (..),
    hear,
    hearAnswer,
    hearAll,
    hearCodes,
    hearBodies,
    hearEnd,
    hearsWithin,
    hearExactly,
    hearSome,
    hearRest,
    Ending (..),

    -- * Answers
    answerHeader,
    answersWith,
  )
where

import Control.Concurrent (threadWaitRead)
import Control.Exception (IOException, bracket, try)
import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isDigit, isHexDigit, toLower)
import Data.IORef
import Data.Maybe (isJust)
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)
import Numeric (readHex)
import System.Timeout (timeout)

-- | One connection, and the received bytes that were not consumed yet.
data Client = Client !Socket !(IORef ByteString)

-- | Connect, run, close.
--
-- [Throws]: 'IOError' if nothing listens there.
withClient :: SockAddr -> (Client -> IO a) -> IO a
withClient address = bracket open (\(Client s _) -> close s)
  where
    open = do
      s <- socket family Stream 0
      -- Not for the programs that other threads of a test start.
      withFdSocket s setCloseOnExecIfNeeded
      patiently "a connection" (connect s address)
      unless (family == AF_UNIX) (setSocketOption s NoDelay 1)
      Client s <$> newIORef B.empty
    family = case address of
      SockAddrInet {} -> AF_INET
      SockAddrInet6 {} -> AF_INET6
      SockAddrUnix {} -> AF_UNIX

-- | Send bytes. A server that answered and closed need not take them all, so errors pass.
say :: Client -> ByteString -> IO ()
say (Client s _) bytes =
  void (try (patiently "the server to take the bytes" (sendAll s bytes)) :: IO (Either IOException ()))

-- | Send pieces, each in a segment of its own.
sayPieces :: Client -> [ByteString] -> IO ()
sayPieces client = mapM_ (say client)

-- | Send nothing more.
finish :: Client -> IO ()
finish (Client s _) = void (try (shutdown s ShutdownSend) :: IO (Either IOException ()))

-- | Close with a reset.
abort :: Client -> IO ()
abort (Client s _) = setSockOpt s Linger (StructLinger 1 0) >> close s

-- | A reply.
data Answer = Answer
  { answerCode :: !Int,
    -- | Names in lower case, in order.
    answerHeaders :: ![(ByteString, ByteString)],
    answerBody :: !ByteString,
    -- | 'False' when the connection closed before the end that the head announced.
    answerWhole :: !Bool,
    -- | The codes of the interim replies before it.
    answerInterim :: ![Int]
  }
  deriving stock (Eq, Show)

-- | The value of a header (named in lower case) that must not be repeated.
answerHeader :: Answer -> ByteString -> Maybe ByteString
answerHeader answer name = case [v | (n, v) <- answerHeaders answer, n == name] of
  [] -> Nothing
  [v] -> Just v
  vs -> error ("expected one " ++ show name ++ "\n but got: " ++ show vs)

-- | Check an answer's code and body.
--
-- [Throws]: 'Unexpected'.
answersWith :: Int -> ByteString -> Answer -> IO ()
answersWith code body answer =
  unless (answerCode answer == code && answerBody answer == body && answerWhole answer) $
    unexpected (show code ++ " with " ++ shown body) (show answer {answerBody = B.take 200 (answerBody answer)})
  where
    shown b
      | B.length b > 200 = show (B.length b) ++ " bytes"
      | otherwise = show b

-- One receive; empty at the end. A reset is an 'IOError'.
receive :: Client -> IO ByteString
receive (Client s _) = patiently "an answer or the end of the connection" (recv s 65536)

more :: Client -> IO Bool
more client@(Client _ rest) = do
  bytes <- receive client
  modifyIORef' rest (<> bytes)
  pure (not (B.null bytes))

-- | The next reply to a request with that method; 'Nothing' at the end of the connection.
--
-- [Throws]: 'Unexpected', also when the end comes inside a head.
hear :: Client -> ByteString -> IO (Maybe Answer)
hear client@(Client _ rest) method = go []
  where
    go interim = do
      bytes <- readIORef rest
      case B.breakSubstring "\r\n\r\n" bytes of
        (headBytes, tailBytes)
          | not (B.null tailBytes) -> do
            writeIORef rest (B.drop 4 tailBytes)
            (code, headers) <- parseAnswer headBytes
            if code < 200
              then go (interim ++ [code])
              else Just <$> content code headers interim
          | otherwise -> do
            alive <- more client
            if alive
              then go interim
              else
                if B.null bytes && null interim
                  then pure Nothing
                  else unexpected "a whole head" ("the end after " ++ show (interim, bytes))
    content code headers interim
      | method == "HEAD" || code == 204 || code == 304 = pure (answer B.empty True)
      | Just coding <- lookup "transfer-encoding" headers = do
        unless (coding == "chunked") (unexpected "chunked" (show coding))
        when (isJust (lookup "content-length" headers)) $
          unexpected "one framing header" (show headers)
        (body, end) <- chunks client []
        pure (answer body end)
      | Just n <- lookup "content-length" headers = do
        size <- maybe (unexpected "a length" (show n)) (pure . fst) (C.readInt n)
        body <- hearExactly client size
        pure (answer body (B.length body == size))
      | otherwise = do
        body <- toEnd client
        pure (answer body True)
      where
        answer body end = Answer code headers body end interim

parseAnswer :: ByteString -> IO (Int, [(ByteString, ByteString)])
parseAnswer bytes = case linesOf bytes of
  status : fields
    | Just rest <- B.stripPrefix "HTTP/1.1 " status,
      (code, reason) <- B.splitAt 3 rest,
      C.all isDigit code,
      B.length code == 3,
      " " `B.isPrefixOf` reason -> do
      headers <- mapM field fields
      let lengths = [v | ("content-length", v) <- headers]
      when (length lengths > 1) (unexpected "at most one Content-Length" (show headers))
      pure (read (C.unpack code), headers)
  other -> unexpected "a status line 'HTTP/1.1 ddd …'" (show other)
  where
    field line = case C.break (== ':') line of
      (name, value)
        | not (B.null name), Just v <- B.stripPrefix ": " value, C.all (/= ' ') name -> pure (C.map toLower name, v)
      _ -> unexpected "'Name: value'" (show line)

-- Lines that all end in CR LF, without any other CR or LF.
linesOf :: ByteString -> [ByteString]
linesOf bytes = case B.breakSubstring "\r\n" bytes of
  (line, rest)
    | B.null rest -> [line]
    | otherwise -> line : linesOf (B.drop 2 rest)

-- | This many bytes; fewer at the end of the connection.
hearExactly :: Client -> Int -> IO ByteString
hearExactly client@(Client _ rest) size = do
  have <- readIORef rest
  go (B.length have) [have]
  where
    go n pieces
      | n >= size = do
        let (body, left) = B.splitAt size (B.concat (reverse pieces))
        body <$ writeIORef rest left
      | otherwise = do
        bytes <- receive client
        if B.null bytes
          then B.concat (reverse pieces) <$ writeIORef rest B.empty
          else go (n + B.length bytes) (bytes : pieces)

toEnd :: Client -> IO ByteString
toEnd client@(Client _ rest) = do
  have <- readIORef rest
  writeIORef rest B.empty
  go [have]
  where
    go pieces = do
      bytes <- receive client
      if B.null bytes then pure (B.concat (reverse pieces)) else go (bytes : pieces)

-- The data of a chunked body, and whether its last chunk came.
chunks :: Client -> [ByteString] -> IO (ByteString, Bool)
chunks client@(Client _ rest) got = do
  bytes <- readIORef rest
  case B.breakSubstring "\r\n" bytes of
    (line, after)
      | not (B.null after) -> do
        unless (not (B.null line) && C.all isHexDigit line) (unexpected "a chunk size" (show line))
        let size = fst (head (readHex (C.unpack line)))
        writeIORef rest (B.drop 2 after)
        piece <- hearExactly client size
        if B.length piece < size
          then pure (joined (piece : got), False)
          else do
            end <- hearExactly client 2
            if
                | B.length end < 2 -> pure (joined (piece : got), False)
                | end /= "\r\n" -> unexpected "CR LF after a chunk" (show end)
                | size == 0 -> pure (joined got, True)
                | otherwise -> chunks client (piece : got)
      | otherwise -> do
        alive <- more client
        if alive then chunks client got else pure (joined got, False)
  where
    joined = B.concat . reverse

-- | The next reply to a GET; its absence fails.
--
-- [Throws]: 'Unexpected'.
hearAnswer :: Client -> IO Answer
hearAnswer client =
  hear client "GET" >>= maybe (unexpected "an answer" "the end of the connection") pure

-- | All replies until the connection ends.
--
-- [Throws]: 'Unexpected'.
hearAll :: Client -> IO [Answer]
hearAll client = hear client "GET" >>= maybe (pure []) (\a -> (a :) <$> hearAll client)

-- | The codes of all replies until the connection ends.
--
-- [Throws]: 'Unexpected'.
hearCodes :: Client -> IO [Int]
hearCodes client = map answerCode <$> hearAll client

-- | The contents of all replies until the connection ends.
--
-- [Throws]: 'Unexpected'.
hearBodies :: Client -> IO [ByteString]
hearBodies client = map answerBody <$> hearAll client

-- | The connection ends without another byte.
--
-- [Throws]: 'Unexpected'.
hearEnd :: Client -> IO ()
hearEnd client = do
  bytes <- toEnd client
  unless (B.null bytes) (unexpected "the end of the connection" (show (B.take 400 bytes)))

-- | Does anything arrive, including the end, within this many microseconds?
hearsWithin :: Client -> Int -> IO Bool
hearsWithin (Client s rest) limit = do
  have <- readIORef rest
  if not (B.null have)
    then pure True
    else do
      -- What has been received must not be lost to the time-out.
      ready <- timeout limit (withFdSocket s (threadWaitRead . fromIntegral))
      if ready == Nothing then pure False else True <$ (recv s 65536 >>= writeIORef rest)

-- | The bytes received and not consumed yet, or else the next ones; empty at the end.
hearSome :: Client -> IO ByteString
hearSome client@(Client _ rest) = do
  have <- readIORef rest
  if B.null have then receive client else have <$ writeIORef rest B.empty

-- | How a connection ended.
data Ending
  = -- | In order.
    Closed
  | -- | By a reset.
    Reset
  deriving stock (Eq, Show)

-- | Every byte until the end, and how it ended.
hearRest :: Client -> IO (ByteString, Ending)
hearRest client@(Client _ rest) = do
  have <- readIORef rest
  writeIORef rest B.empty
  go [have]
  where
    go pieces =
      try (receive client) >>= \case
        Left (_ :: IOException) -> pure (B.concat (reverse pieces), Reset)
        Right bytes
          | B.null bytes -> pure (B.concat (reverse pieces), Closed)
          | otherwise -> go (bytes : pieces)
