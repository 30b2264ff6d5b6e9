{-# LANGUAGE OverloadedStrings #-}

-- | Content without a length on its way to programs that read as many bytes as they are told: PHP, Python and Perl do.
module ContentTest (tests) where

import CgiTest (Programs (..), nothingRuns, withProgramsOn)
import Control.Exception (bracket, bracket_)
import Control.Monad (forM_, unless, void, when)
import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Data.List (isInfixOf, isPrefixOf)
import Data.Maybe (fromMaybe)
import FastCgiTest hiding (tests)
import GatewayFixture
import Heddle.Gateway.FastCgi.Record
import Heddle.Gateway.Scgi
import Heddle.Http (Settings, defaultSettings)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr)
import Numeric (showHex)
import System.Directory
import System.Environment (lookupEnv, setEnv, unsetEnv)
import System.FilePath ((</>))
import System.IO.Error (catchIOError)
import System.Posix.Files (readSymbolicLink)
import System.Posix.Resource
import System.Posix.Signals (Handler (..), fileSizeLimitExceeded, installHandler)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "content without a length"
    [ testCase "contentWithoutALengthWasLost: in chunks of HTTP/1" (withEach defaultSettings inChunks),
      testCase "contentWithoutALengthWasLost: over HTTP/2" (withEach defaultSettings overHttp2),
      testCase "a program that reads none of it" unread,
      testCase "too long, malformed, too slow: 413, 400, 408, and no program is asked" (withEach hurried faulty),
      testCase "the client goes in the midst of it: no program is asked" (withEach defaultSettings clientGoes),
      testCase "the client goes while the program runs: the program ends" clientGoesLater,
      testCase "theFileStayedOpenWhileTheProgramAnswered: it has no name, and is gone when its end has been passed on" nameless,
      testCase "no room for the file: 503, with the cause told, and what fits into memory goes on" (withEach defaultSettings noRoom),
      testCase "a disk that fills: 503, with the cause told" (withEach defaultSettings filled)
    ]

-- A gateway whose program answers with CONTENT_LENGTH, so many bytes of what it has been sent, and the number of bytes
-- beyond them.
data Kind = Kind
  { kindName :: !String,
    kindRunning :: !Running,
    kindTold :: !(IO [String]),
    -- How often the program has been asked.
    kindAsked :: !(IO Int)
  }

withEach :: Settings -> (Kind -> IO ()) -> IO ()
withEach engine body = do
  -- Every start of the program leaves a message.
  withProgramsOn engine id $ \programs -> do
    let told = toldLines (programsTold programs)
    body (Kind "CGI" (programsRunning programs) (filter (not . isStart) <$> told) (length . filter isStart <$> told))
  withCount $ \count -> withServerOf (answering' count) $ \address _ ->
    withFastOn engine [address] id $ \_ running told -> body (Kind "FastCGI" running (toldLines told) (readIORef count))
  withCount $ \count -> withServerOf (\n peer -> counted count >> scgiServerWith scgiSays n peer) $ \address _ -> do
    told <- newTold
    withTestRuntime $ \runtime -> withScgi runtime (defaultScgiSettings [address] "/srv/www") {scgiTell = tellTo told} $ \gateway ->
      withGatewayServerOn engine runtime (scgiGateway gateway) $ \running -> body (Kind "SCGI" running (toldLines told) (readIORef count))
  where
    isStart = (": started" `isInfixOf`)
    withCount use = newIORef (0 :: Int) >>= use
    counted count = atomicModifyIORef' count (\n -> (n + 1, ()))
    answering' count n peer =
      wholeRequest peer >>= \case
        Nothing -> pure ()
        Just (params, content) -> counted count >> tellPeer peer (reply (says (lookup "CONTENT_LENGTH" params) content)) >> answering' count n peer
    scgiSays fields = says (Just (fields !! 1))
    says given content =
      let (read', rest) = B.splitAt (maybe 0 (maybe 0 fst . C.readInt) given) content
       in C.concat [fromMaybe "none" given, " ", read', " ", C.pack (show (B.length rest))]

path :: ByteString
path = "/p/t?err:started+type+given"

expected :: ByteString -> ByteString
expected content = C.concat [C.pack (show (B.length content)), " ", content, " 0"]

-- Empty content is none, for which only SCGI has a length.
expectedOf :: Kind -> ByteString -> ByteString
expectedOf kind content = if B.null content && kindName kind /= "SCGI" then "none  0" else expected content

-- Around the sizes of the buffer, which is doubled from 4,096 up to 65,536 bytes.
contents :: [ByteString]
contents = [C.take n (C.concat (replicate 5000 "content that is told apart by its place, and not only counted; \n")) | n <- [0, 1, 4095, 4096, 4097, 8193, 65535, 65536, 65537, 131072, 300000]]

chunked :: Int -> ByteString -> ByteString
chunked size content
  | B.null content = "0\r\n\r\n"
  | otherwise = let (piece, rest) = B.splitAt size content in C.concat [C.pack (showHex (B.length piece) "\r\n"), piece, "\r\n", chunked size rest]

asking' :: Client -> ByteString -> IO ()
asking' client fields = say client (C.concat ["POST ", path, " HTTP/1.1\r\nHost: test\r\n", fields, "\r\n"])

inChunks :: Kind -> IO ()
inChunks kind = withClient (runningAddress (kindRunning kind)) $ \client -> do
  forM_ contents $ \content -> forM_ [7, 1000, 1000000] $ \size -> when (size > 7 || B.length content < 5000) $ do
    asking' client "Transfer-Encoding: chunked\r\n"
    say client (chunked size content)
    hearAnswer client >>= answersWith 200 (expectedOf kind content)
  -- Chunk extensions and trailers are no content.
  asking' client "Transfer-Encoding: chunked\r\n"
  say client "3;name=value\r\none\r\n3\r\ntwo\r\n0\r\nX-Trailer: x\r\n\r\n"
  hearAnswer client >>= answersWith 200 (expected "onetwo")
  -- A client that waits to be asked for it.
  asking' client "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"
  hearSome client >>= (@?= "HTTP/1.1 100 Continue\r\n\r\n")
  say client (chunked 2 "four")
  hearAnswer client >>= answersWith 200 (expected "four")
  -- With any method, and with a length as before.
  say client (C.concat ["GET ", path, " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n", chunked 3 "content"])
  hearAnswer client >>= answersWith 200 (expected "content")
  asking' client "Content-Length: 3\r\n"
  say client "xyz"
  hearAnswer client >>= answersWith 200 (expected "xyz")

overHttp2 :: Kind -> IO ()
overHttp2 kind = forM_ contents $ \content ->
  posted (runningAddress (kindRunning kind)) content >>= \said -> unless (said == expectedOf kind content) (unexpected (kindName kind ++ ": " ++ show (B.length content)) (show (B.take 100 said, B.length said)))

unread :: IO ()
unread = withProgramsOn defaultSettings id $ \programs -> withClient (runningAddress (programsRunning programs)) $ \client ->
  forM_ contents $ \content -> do
    say client (C.concat ["POST /p/t?type+hello HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n", chunked 100000 content])
    hearAnswer client >>= answersWith 200 "hello\n"

faulty :: Kind -> IO ()
faulty kind = do
  forM_ [(413, chunked 1000 (C.replicate 3000 'x')), (400, "5\r\nhello\r\nzz\r\n"), (408, "5\r\nhel")] $ \(code, content) ->
    withClient (runningAddress (kindRunning kind)) $ \client -> do
      asking' client "Transfer-Encoding: chunked\r\n"
      say client content
      answer <- hearAnswer client
      (kindName kind, answerCode answer) @?= (kindName kind, code)
  kindAsked kind >>= (@?= 0)

clientGoes :: Kind -> IO ()
clientGoes kind = do
  forM_ [1000, 200000] $ \n -> withClient (runningAddress (kindRunning kind)) $ \client -> do
    asking' client "Transfer-Encoding: chunked\r\n"
    say client ("7a120\r\n" <> C.replicate n 'x')
  -- The next one is served, and alone.
  withClient (runningAddress (kindRunning kind)) $ \client -> do
    asking' client "Transfer-Encoding: chunked\r\n"
    say client (chunked 10 "content")
    hearAnswer client >>= answersWith 200 (expected "content")
  _ <- eventually "one request" (kindAsked kind) (== 1)
  pure ()

clientGoesLater :: IO ()
clientGoesLater = withProgramsOn defaultSettings id $ \programs ->
  -- The first fits into the pipe of its standard input, the second does not.
  forM_ [10, 500000] $ \n -> do
    let file = programsDirectory programs </> "reached"
    withClient (runningAddress (programsRunning programs)) $ \client -> do
      say client (C.concat ["POST /p/t?tell:", C.pack file, "+hang HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n", chunked 100000 (C.replicate n 'x')])
      void (eventually "the program to run" (doesFileExist file) id)
    nothingRuns (programsCgi programs)
    removeFile file

nameless :: IO ()
nameless = withDirectory $ \directory -> withVariable "TMPDIR" directory $ do
  seen <- newIORef []
  let look = (,) <$> openIn directory <*> listDirectory directory
      note found = atomicModifyIORef' seen (\all' -> (found : all', ()))
      -- More than the buffers of the connection hold, so the file is not at its end when the request begins.
      serve _ peer = do
        begun <- record peer
        unless (null begun) $ do
          look >>= note
          rest peer
          eventually "the file to be gone" look (== (0, [])) >>= note
          tellPeer peer (reply "hello")
      rest peer = record peer >>= mapM_ (\r -> unless (recordType r == Stdin && B.null (recordContent r)) (rest peer))
  forM_ [65536, 32000000] $ \n -> withServerOf serve $ \address _ -> withFastOn defaultSettings [address] id $ \_ running _ ->
    withClient (runningAddress running) $ \client -> do
      asking' client "Transfer-Encoding: chunked\r\n"
      say client (chunked 1000000 (C.replicate n 'x'))
      hearAnswer client >>= answersWith 200 "hello"
  readIORef seen >>= (@?= [(0, []), (0, []), (1, []), (0, [])]) . reverse

-- How many descriptors of this process are of files that are in a directory, or were.
openIn :: FilePath -> IO Int
openIn directory = do
  fds <- listDirectory "/proc/self/fd"
  targets <- mapM (\fd -> readSymbolicLink ("/proc/self/fd" </> fd) `catchIOError` const (pure "")) fds
  pure (length (filter ((directory ++ "/") `isPrefixOf`) targets))

withVariable :: String -> String -> IO a -> IO a
withVariable name value body = bracket (lookupEnv name <* setEnv name value) (maybe (unsetEnv name) (setEnv name)) (const body)

noRoom :: Kind -> IO ()
noRoom kind = withVariable "TMPDIR" "/nonexistent/place" $ do
  withClient (runningAddress (kindRunning kind)) $ \client -> do
    asking' client "Transfer-Encoding: chunked\r\n"
    say client (chunked 1000 (C.replicate 65536 'x'))
    hearAnswer client >>= answersWith 200 (expected (C.replicate 65536 'x'))
  _ <- eventually "one request" (kindAsked kind) (== 1)
  refusedFor kind "opening a temporary file in /nonexistent/place: no such file or directory (ENOENT)"

filled :: Kind -> IO ()
filled kind = do
  limits <- getResourceLimit ResourceFileSize
  let set now = setResourceLimit ResourceFileSize limits {softLimit = now}
  bracket (installHandler fileSizeLimitExceeded Ignore Nothing) (\old -> installHandler fileSizeLimitExceeded old Nothing) $ \_ ->
    bracket_ (set (ResourceLimit 100000)) (set (softLimit limits)) (refusedFor kind "writing to a temporary file: ")

refusedFor :: Kind -> String -> IO ()
refusedFor kind why = do
  before <- kindAsked kind
  withClient (runningAddress (kindRunning kind)) $ \client -> do
    asking' client "Transfer-Encoding: chunked\r\n"
    say client (chunked 100000 (C.replicate 300000 'x'))
    answer <- hearAnswer client
    (answerCode answer, answerHeader answer "retry-after") @?= (503, Just "5")
  told <- kindTold kind
  assertBool (show told) (any (("was not asked: " ++ why) `isInfixOf`) told)
  kindAsked kind >>= (@?= before)

-- HTTP/2 ---------------------------------------------------------------------------

-- What has come and not been read, the windows of the connection and the stream, and what is still to be sent.
data Talk = Talk !ByteString !Int !Int !ByteString

-- | The content of the answer to a POST over HTTP/2, whose content has no length.
posted :: SockAddr -> ByteString -> IO ByteString
posted address content = withClient address $ \client -> do
  -- Large windows for the answer.
  say client (C.concat ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame 4 0 0 (B.pack [0, 4, 0, 0x40, 0, 0]), frame 8 0 0 (B.pack [0, 0x40, 0, 0])])
  say client (frame 1 4 1 (C.concat [B.pack [0x83, 0x86, 0x04], string path, B.pack [0x01], string "test"]))
  when (B.null content) (say client (frame 0 1 1 ""))
  go client [] (Talk "" 65535 65535 content)
  where
    string text = B.cons (fromIntegral (B.length text)) text
    frame :: Int -> Int -> Int -> ByteString -> ByteString
    frame kind flags stream payload = B.append (B.pack (map fromIntegral [n `shiftR` 16, n `shiftR` 8, n, kind, flags, 0, 0, 0, stream])) payload
      where
        n = B.length payload
    number = B.foldl' (\n b -> n `shiftL` 8 .|. fromIntegral b) (0 :: Int)
    go client got (Talk input whole stream left)
      | room > 0,
        not (B.null left) = do
        say client (frame 0 0 1 (B.take room left))
        let rest = B.drop room left
        when (B.null rest) (say client (frame 0 1 1 ""))
        go client got (Talk input (whole - min room (B.length left)) (stream - min room (B.length left)) rest)
      | B.length input < 9 || B.length input < 9 + number (B.take 3 input) = do
        more <- hearSome client
        when (B.null more) (unexpected "an answer over HTTP/2" "the end")
        go client got (Talk (input <> more) whole stream left)
      | otherwise = do
        let (payload, rest) = B.splitAt (number (B.take 3 input)) (B.drop 9 input)
            flags = B.index input 4
            of' = number (B.take 4 (B.drop 5 input))
            next w s = go client got (Talk rest w s left)
        case B.index input 3 of
          0 | flags .&. 1 == 1 -> pure (B.concat (reverse (payload : got)))
          0 -> go client (payload : got) (Talk rest whole stream left)
          3 -> unexpected "an answer over HTTP/2" ("a reset: " ++ show (number payload))
          4
            | flags .&. 1 == 0 -> do
              say client (frame 4 1 0 "")
              let given = [number (B.take 4 (B.drop (i + 2) payload)) | i <- [0, 6 .. B.length payload - 6], number (B.take 2 (B.drop i payload)) == 4]
              next whole (foldl (\s n -> s + n - 65535) stream given)
          7 -> unexpected "an answer over HTTP/2" ("the end of the connection: " ++ show payload)
          8
            | of' == 0 -> next (whole + number payload) stream
            | otherwise -> next whole (stream + number payload)
          _ -> next whole stream
      where
        room = minimum [whole, stream, 16384]
