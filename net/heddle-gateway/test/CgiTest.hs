{-# LANGUAGE OverloadedStrings #-}

-- | CGI with a program of ours in C: what it is told, what it may answer, and every way in which it misbehaves.
module CgiTest
  ( tests,
    Programs (..),
    withProgramsOn,
    nothingRuns,
  )
where

import Control.Concurrent (forkIO, newEmptyMVar, putMVar, readMVar, threadDelay)
import Control.Monad (forM, forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Int (Int32)
import Data.List (isInfixOf)
import Foreign.C.String (CString)
import Foreign.C.Types (CInt (..), CLong (..))
import Foreign.Marshal.Array (allocaArray, peekArray, withArray0)
import Foreign.Ptr (Ptr, nullPtr)
import GatewayFixture
import Heddle.Gateway.Cgi
import Heddle.Http (Reply (..), Settings, defaultSettings, status200)
import Heddle.IO (close, milliseconds, register, seconds)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Threads (forkTask, joinTask)
import Heddle.Testkit.Watchdog
import System.Directory
import System.FilePath ((</>))
import System.Posix.Files (createSymbolicLink, setFileMode)
import System.Posix.IO (closeFd)
import System.Posix.Types (Fd (..))
import System.Process (callProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "CGI"
    [ testCase "the environment: all of RFC 3875, never HTTP_PROXY" environment,
      testCase "which program: directories, PATH_INFO, what may not run" which,
      testCase "one program for all paths" single,
      testCase "suffixes" suffixes,
      testCase "answers: status, length, redirects, lines as HTTP has them" answers,
      testCase "a body of 8 MB comes back as it went" streaming,
      testCase "an answer flows while the program runs, and a body while it answers" interactive,
      testCase "malformed answers are 502, with the cause told" malformed,
      testCase "an answer that breaks off breaks the connection off" broken,
      testCase "aProgramReapedLateSeemedToHaveFinished" reapedLate,
      testCase "standard error, line by line" errors,
      testCase "a silent program is 504, and its group is ended" hangs,
      testCase "a program that ignores SIGTERM is killed" stubborn,
      testCase "the client goes: the program ends within 100 ms" clientGoes,
      testCase "the deadline ends the program" deadline,
      testCase "no more than the most programs, then a queue, then 503" bounded,
      testCase "many requests at once: nothing is left" many,
      testCase "interrupted anywhere: nothing is left" interruptions,
      testCase "the gateway ends: programs end with it" gatewayEnds,
      testCase "theEndDidNotWaitWithoutAQueue" endsWithoutQueue,
      testCase "slowUploadHeldTheProgram" slowUpload,
      testCase "faultyBodyPassedForAClientThatHadGone" faultyBodies,
      testCase "dotSegmentsWithParametersReachedThePathInfo" hiddenDots,
      testCase "aPathOfOneSlashWasDropped" oneSlash,
      testCase "aProgramThatCouldNotBeRegisteredWasNotReaped" notRegistered
    ]

-- | A server of programs, what it has told, and a directory that the programs' is in.
data Programs = Programs
  { programsCgi :: !Cgi,
    programsRunning :: !Running,
    programsTold :: !Told,
    programsDirectory :: !FilePath
  }

-- The program under some names, and a server for it.
withPrograms :: (CgiSettings -> CgiSettings) -> (Programs -> IO a) -> IO a
withPrograms = withProgramsOn defaultSettings

-- | The same with other settings of the engine.
withProgramsOn :: Settings -> (CgiSettings -> CgiSettings) -> (Programs -> IO a) -> IO a
withProgramsOn engine change body = withDirectory $ \directory -> do
  let programs = directory </> "cgi"
  createDirectory programs
  createDirectory (programs </> "sub")
  callProcess "gcc" ["-O1", "-o", programs </> "t", "test/programs/heddle_cgi.c"]
  forM_ ["nph-t", "sub" </> "t.cgi", "sub" </> "index.cgi"] $ \name -> copyFile (programs </> "t") (programs </> name)
  B.writeFile (programs </> "data.txt") "not a program"
  B.writeFile (programs </> "bad") "no program at all"
  setFileMode (programs </> "bad") 0o755
  createSymbolicLink "/bin/true" (programs </> "outside")
  createSymbolicLink "t" (programs </> "inside")
  told <- newTold
  let settings = change (defaultCgiSettings (C.pack programs)) {cgiTell = tellTo told}
  withTestRuntime $ \runtime -> do
    r <- withCgi runtime settings $ \cgi -> do
      r <- withGatewayServerOn engine runtime (cgiGateway cgi) (\running -> body (Programs cgi running told directory))
      r <$ nothingRuns cgi
    r <$ noChildren

-- | Wait until no program runs.
nothingRuns :: Cgi -> IO ()
nothingRuns cgi = void (eventually "every program to end" (runningPrograms cgi) (== 0))

-- No child of this process is left, not even a dead one.
noChildren :: IO ()
noChildren = void (eventually "no child" children (== ""))

children :: IO ByteString
children = C.unwords . filter (not . B.null) <$> (listDirectory "/proc/self/task" >>= mapM (\t -> C.strip <$> B.readFile ("/proc/self/task" </> t </> "children")))

get :: Programs -> ByteString -> IO Answer
get programs = asking (programsRunning programs)

toldOf :: Programs -> String -> IO ()
toldOf programs part = void (eventually ("a message with " ++ part) (toldLines (programsTold programs)) (any (part `isInfixOf`)))

environment :: IO ()
environment = withPrograms (\s -> s {cgiVariables = [("GIT_PROJECT_ROOT", "/srv"), ("REQUEST_METHOD", "NO")], cgiRoot = "/srv/www"}) $ \programs -> do
  answer <- withClient (runningAddress (programsRunning programs)) $ \client ->
    ask client "POST" "/p/t/a%20b//c/?env" [("Proxy", "http://evil"), ("X-One", "1"), ("x-one", "2"), ("X_Two", "3"), ("Cookie", "a=1"), ("Cookie", "b=2"), ("Content-Type", "text/x"), ("TE", "trailers"), ("Connection", "close, TE"), ("Proxy-Authorization", "x")] "body"
  let variables = C.lines (answerBody answer)
      has name value = assertBool (show (name, value) ++ show variables) (C.concat [name, "=", value] `elem` variables)
      lacks name = assertBool (show name) (not (any ((name <> "=") `B.isPrefixOf`) variables))
  answerCode answer @?= 200
  mapM_
    (uncurry has)
    [ ("GATEWAY_INTERFACE", "CGI/1.1"),
      ("SERVER_PROTOCOL", "HTTP/1.1"),
      ("SERVER_NAME", "test"),
      ("SERVER_SOFTWARE", "heddle"),
      ("REQUEST_METHOD", "POST"),
      ("REQUEST_URI", "/p/t/a%20b//c/?env"),
      ("QUERY_STRING", "env"),
      ("SCRIPT_NAME", "/p/t"),
      ("PATH_INFO", "/a b/c/"),
      ("PATH_TRANSLATED", "/srv/www/a b/c/"),
      ("DOCUMENT_ROOT", "/srv/www"),
      ("REMOTE_ADDR", "127.0.0.1"),
      ("CONTENT_LENGTH", "4"),
      ("CONTENT_TYPE", "text/x"),
      ("REDIRECT_STATUS", "200"),
      ("HTTP_HOST", "test"),
      ("HTTP_X_ONE", "1, 2"),
      ("HTTP_COOKIE", "a=1; b=2"),
      ("GIT_PROJECT_ROOT", "/srv")
    ]
  assertBool "the file" (any ("SCRIPT_FILENAME=/tmp/" `B.isPrefixOf`) variables && any ("/cgi/t" `B.isSuffixOf`) variables)
  assertBool "a port" (any ("SERVER_PORT=" `B.isPrefixOf`) variables && any ("REMOTE_PORT=" `B.isPrefixOf`) variables)
  mapM_ lacks ["HTTP_PROXY", "HTTP_X_TWO", "HTTP_TE", "HTTP_CONNECTION", "HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE", "HTTP_PROXY_AUTHORIZATION", "HTTPS", "HOME", "LD_PRELOAD"]
  -- The Host header of an absolute target does not count.
  absolute <- withClient (runningAddress (programsRunning programs)) $ \client -> do
    say client "GET http://a.example/p/t?env HTTP/1.1\r\nHost: other.example\r\n\r\n"
    C.lines . answerBody <$> hearAnswer client
  assertBool (show absolute) ("HTTP_HOST=a.example" `elem` absolute && "SERVER_NAME=a.example" `elem` absolute)
  -- Nothing but the three descriptors.
  get programs "/p/t?type+descriptors" >>= answersWith 200 ""
  -- Programs run where they are.
  where' <- answerBody <$> get programs "/p/sub/t.cgi?type+pwd"
  assertBool (show where') ("/cgi/sub\n" `B.isSuffixOf` where')

which :: IO ()
which = withPrograms id $ \programs -> do
  let code path = answerCode <$> get programs path
  get programs "/p/t?type+hello" >>= answersWith 200 "hello\n"
  get programs "/p/inside?type+hello" >>= answersWith 200 "hello\n"
  get programs "/p/sub/t.cgi/more?type+hello" >>= answersWith 200 "hello\n"
  -- A directory's own program; a slash is added.
  get programs "/p/sub/?type+hello" >>= answersWith 200 "hello\n"
  redirected <- get programs "/p/sub?type+hello"
  (answerCode redirected, answerHeader redirected "location") @?= (301, Just "/p/sub/")
  code "/p/" >>= (@?= 403)
  code "/p" >>= (@?= 403)
  code "/p/none" >>= (@?= 404)
  code "/p/none/t" >>= (@?= 404)
  code "/p/sub/none" >>= (@?= 404)
  code "/p/.hidden" >>= (@?= 404)
  -- Not executable, not even in the middle of a path; a link that leads out; no program.
  code "/p/data.txt" >>= (@?= 403)
  code "/p/data.txt/t" >>= (@?= 403)
  code "/p/outside" >>= (@?= 403)
  code "/p/bad" >>= (@?= 502)
  toldOf programs "program /p/bad cannot be reached"
  void (eventually "the status in the log" (map snd <$> runningNoted (programsRunning programs)) ((== [Just "502"]) . take 1 . reverse))

single :: IO ()
single = withPrograms (\s -> s {cgiPath = cgiPath s <> "/t"}) $ \programs -> do
  variables <- C.lines . answerBody <$> get programs "/p/any/path.x?env"
  assertBool (show variables) ("SCRIPT_NAME=/p" `elem` variables && "PATH_INFO=/any/path.x" `elem` variables)

oneSlash :: IO ()
oneSlash = do
  withPrograms id $ \programs ->
    forM_ [("/p/t/", "/"), ("/p/t", ""), ("/p/t//", "/"), ("/p/t/./", "/"), ("/p/t/x/..", "/"), ("/p/t/x/", "/x/"), ("/p/sub/t.cgi/", "/"), ("/p/sub/t.cgi", ""), ("/p/sub/", "")] (told programs)
  withPrograms (\s -> s {cgiPath = cgiPath s <> "/t"}) $ \programs ->
    forM_ [("/p/", "/"), ("/p", ""), ("/p//", "/"), ("/p/x", "/x"), ("/p/x/", "/x/")] (told programs)
  where
    told programs (path, info) = do
      variables <- C.lines . answerBody <$> get programs (path <> "?env")
      filter ("PATH_INFO=" `B.isPrefixOf`) variables @?= ["PATH_INFO=" <> info]
      assertBool (show (path, variables)) (("PATH_TRANSLATED=" `B.isInfixOf` C.unlines variables) == not (B.null info))

-- What undoes a start whose registration has failed halfway: the pidfd is non-blocking by then.
notRegistered :: IO ()
notRegistered = withTestRuntime $ \runtime -> do
  forM_ [1 .. 20 :: Int] $ \_ ->
    B.useAsCString "/bin/cat" $ \path -> withArray0 nullPtr [path] $ \arguments -> withArray0 nullPtr [] $ \environment' ->
      B.useAsCString "/" $ \here -> allocaArray 5 $ \out -> do
        spawned path arguments environment' here 1 out >>= (@?= 0)
        found <- peekArray 5 out
        case map fromIntegral found of
          number : pidfd : pipes -> do
            conn <- register runtime (Fd pidfd)
            signalled number 9 >>= (@?= 0)
            reaped pidfd >>= (@?= 256 + 9)
            close conn
            forM_ pipes (closeFd . Fd)
          _ -> pure ()
  noChildren

foreign import ccall safe "heddle_spawn" spawned :: CString -> Ptr CString -> Ptr CString -> CString -> CInt -> Ptr Int32 -> IO CLong

foreign import ccall unsafe "heddle_signal_group" signalled :: CInt -> CInt -> IO CLong

foreign import ccall safe "heddle_reap" reaped :: CInt -> IO CLong

suffixes :: IO ()
suffixes = withPrograms (\s -> s {cgiSuffixes = [".cgi"]}) $ \programs -> do
  get programs "/p/sub/t.cgi?type+hello" >>= answersWith 200 "hello\n"
  get programs "/p/t?type+hello" >>= (@?= 404) . answerCode

answers :: IO ()
answers = withPrograms (\s -> s {cgiElsewhere = \_ path _ -> pure (Whole status200 [] path)}) $ \programs -> do
  let says = get programs
      headerOf name answer = answerHeader answer name
  says "/p/t?crlf+hello" >>= answersWith 200 "hello\n"
  withLength <- says "/p/t?length:6+type+hello"
  answersWith 200 "hello\n" withLength
  headerOf "content-length" withLength @?= Just "6"
  says "/p/t?status:404+type+hello" >>= answersWith 404 "hello\n"
  says "/p/t?status:204+nl" >>= answersWith 204 ""
  -- It has no content, whatever the program says.
  forM_ ["status:205+nl", "status:205+type+hello", "status:205+length:6+type+hello"] $ \reset -> do
    answer <- says ("/p/t?" <> reset)
    (answerCode answer, answerBody answer, headerOf "content-length" answer) @?= (205, "", Just "0")
  client <- says "/p/t?location:http://elsewhere/+nl"
  (answerCode client, headerOf "location" client) @?= (302, Just "http://elsewhere/")
  own <- says "/p/t?status:303+location:/x+nl"
  (answerCode own, headerOf "location" own) @?= (303, Just "/x")
  says "/p/t?location:/other?q=1+nl" >>= answersWith 200 "/other?q=1"
  -- anAnswerWithoutATypeWasRefused: it is text.
  forM_ ["/p/t?line:X-Only:x+nl+hello", "/p/t?nl+hello"] $ \path -> do
    untyped <- says path
    answersWith 200 "hello\n" untyped
    headerOf "content-type" untyped @?= Just "text/plain"
  -- Non-parsed headers, and connection headers that are the server's.
  nph <- says "/p/nph-t?http:201+line:Connection:close+line:Keep-Alive:x+line:X-Mine:y+type+hello"
  answersWith 201 "hello\n" nph
  (headerOf "x-mine" nph, headerOf "keep-alive" nph) @?= (Just "y", Nothing)
  -- HEAD: the head of what GET answers, and no content, on a connection that stays.
  withClient (runningAddress (programsRunning programs)) $ \c -> do
    ask c "HEAD" "/p/t?type+hello" [] "" >>= answersWith 200 ""
    ask c "GET" "/p/t?type+hello" [] "" >>= answersWith 200 "hello\n"
    ask c "POST" "/p/t?type+hello" [] "a body that nobody reads" >>= answersWith 200 "hello\n"
    ask c "GET" "/p/t?type+hello" [] "" >>= answersWith 200 "hello\n"

streaming :: IO ()
streaming = withPrograms id $ \programs ->
  withClient (runningAddress (programsRunning programs)) $ \client -> do
    let content = C.concat (replicate 8192 (C.pack (take 1024 (cycle ['a' .. 'z']))))
    -- Both directions at once: the program writes while it reads, so neither side may wait for the other's end.
    sender <- forkTask (say client (C.concat ["POST /p/t?type+echo HTTP/1.1\r\nHost: test\r\nContent-Length: ", C.pack (show (B.length content)), "\r\n\r\n", content]))
    hearAnswer client >>= answersWith 200 content
    joinTask sender
    -- Without a length.
    say client "POST /p/t?type+count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n"
    hearAnswer client >>= answersWith 200 "8\n"
    -- A client that waits to be asked for the body.
    say client "POST /p/t?type+count HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    hearSome client >>= (@?= "HTTP/1.1 100 Continue\r\n\r\n")
    say client "four"
    hearAnswer client >>= answersWith 200 "4\n"

interactive :: IO ()
interactive = withPrograms id $ \programs ->
  withClient (runningAddress (programsRunning programs)) $ \client -> do
    say client "POST /p/t?type+raw:begun+flush+echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n"
    let await part got
          | part `B.isInfixOf` got = pure got
          | otherwise = hearSome client >>= \more -> if B.null more then unexpected (show part) (show got) else await part (got <> more)
    _ <- await "begun" ""
    say client "hello"
    say client "world"
    _ <- await "0\r\n\r\n" ""
    pure ()

malformed :: IO ()
malformed = withPrograms id $ \programs ->
  forM_
    [ ("exit:0", "it said nothing"),
      ("exit:3", "it said nothing"),
      ("raw:Content-Type:x", "it ended within the head"),
      ("raw:hello+nl+nl", "is no header"),
      ("status:20+nl", "is no status"),
      ("status:100+nl", "is no status"),
      ("status:999+nl", "is no status"),
      ("status:200+status:200+nl", "two statuses"),
      ("length:abc+type", "is no Content-Length"),
      ("length:-1+type", "is no Content-Length"),
      ("length:5+length:6+type", "two lengths"),
      ("line:Transfer-Encoding:chunked+type", "Transfer-Encoding"),
      ("line:Bad(Name:x+type", "characters that none may have"),
      ("line:X-A:x+folded+type", "is no header"),
      ("control+type", "control characters"),
      ("location:/a+location:/b+nl", "two Locations"),
      ("headers:500+type", "more than 200 header lines"),
      ("raw:X:+bytes:100000+nl+type", "more than 65536 bytes"),
      ("bytes:100000", "more than 65536 bytes"),
      ("abort", "ended before")
    ]
    $ \(words', why) -> do
      answer <- get programs ("/p/t?" <> words')
      unless (answerCode answer == 502 && answerWhole answer) $ unexpected ("502 for " ++ show words') (show answer)
      toldOf programs why

broken :: IO ()
broken = withPrograms id $ \programs -> do
  -- Fewer bytes than promised.
  -- A little of it may not have gone out yet; then the client gets to know.
  short <- get programs "/p/t?length:100+type+hello"
  assertBool (show short) (answerCode short == 502 && answerWhole short || answerCode short == 200 && not (answerWhole short))
  cutShort <- get programs "/p/t?length:100000+type+bytes:90000+flush"
  (answerCode cutShort, answerWhole cutShort) @?= (200, False)
  -- Ended by a signal in the middle of content without a length.
  (rest, _) <- ended (programsRunning programs) "/p/t?type+bytes:90000+flush+abort"
  assertBool "no last chunk" (not ("0\r\n\r\n" `B.isSuffixOf` rest))
  -- More than promised: the client gets what was promised.
  withClient (runningAddress (programsRunning programs)) $ \client -> do
    ask client "GET" "/p/t?length:3+type+hello" [] "" >>= answersWith 200 "hel"
    ask client "GET" "/p/t?length:3+type+flush+raw:hel+flush+bytes:100000" [] "" >>= answersWith 200 "hel"
    ask client "GET" "/p/t?type+hello" [] "" >>= answersWith 200 "hello\n"
  toldOf programs "sent more than the Content-Length"
  failures <- runningFailures (programsRunning programs)
  assertBool (show failures) (length (filter ("ended before its answer was whole" `isInfixOf`) failures) >= 2)

-- It is reaped by the thread that tells what it wrote to its standard error, which may take its time.
reapedLate :: IO ()
reapedLate = do
  gate <- newEmptyMVar
  let slowly s = s {cgiTell = \line -> when ("slow" `isInfixOf` line) (readMVar gate) >> cgiTell s line}
  withPrograms slowly $ \programs -> do
    rest <- withClient (runningAddress (programsRunning programs)) $ \client -> do
      say client "GET /p/t?err:slow+type+bytes:90000+flush+abort HTTP/1.1\r\nHost: test\r\n\r\n"
      -- Longer than a program that lives on without its output is waited for.
      _ <- forkIO (threadDelay 600000 >> putMVar gate ())
      fst <$> hearRest client
    assertBool "no last chunk" (not ("0\r\n\r\n" `B.isSuffixOf` rest))

errors :: IO ()
errors = withPrograms id $ \programs -> do
  get programs "/p/t?err:first+err:second+errpart:last+type+hello+exit:7" >>= answersWith 200 "hello\n"
  mapM_ (toldOf programs) ["program /p/t: first", "program /p/t: second", "program /p/t: last", "program /p/t exited with code 7"]
  -- Programs that write much to it neither wait for the client nor are waited for.
  get programs "/p/t?err:x+type+hello" >>= answersWith 200 "hello\n"

hangs :: IO ()
hangs = (<* begun) . withPrograms (\s -> s {cgiSilence = milliseconds 200, cgiGrace = milliseconds 200}) $ \programs -> do
  get programs "/p/t?hang" >>= (@?= 504) . answerCode
  get programs "/p/t?child+hang" >>= (@?= 504) . answerCode
  toldOf programs "did not answer in time"
  nothingRuns (programsCgi programs)
  where
    begun = withPrograms (\s -> s {cgiSilence = seconds 3, cgiGrace = milliseconds 200}) $ \programs -> do
      answer <- get programs "/p/t?type+hello+flush+hang"
      (answerCode answer, answerWhole answer) @?= (200, False)
      nothingRuns (programsCgi programs)

stubborn :: IO ()
stubborn = withPrograms (\s -> s {cgiGrace = milliseconds 100}) $ \programs -> do
  let file = programsDirectory programs </> "reached"
  withClient (runningAddress (programsRunning programs)) $ \client -> do
    -- Both processes ignore it from here on; the end begins when the client goes.
    say client ("GET /p/t?stubborn+child+tell:" <> C.pack file <> "+hang HTTP/1.1\r\nHost: test\r\n\r\n")
    void (eventually "the program to run" (doesFileExist file) id)
    abort client
  nothingRuns (programsCgi programs)
  toldOf programs "was ended by signal 9"

clientGoes :: IO ()
clientGoes = withPrograms (\s -> s {cgiGrace = seconds 30}) $ \programs ->
  forM_ ["/p/t?tell:FILE+hang", "/p/t?type+hello+flush+tell:FILE+hang", "/p/t?tell:FILE+child+hang"] $ \path -> do
    let file = programsDirectory programs </> "reached"
        path' = let (before, after') = B.breakSubstring "FILE" path in before <> C.pack file <> B.drop 4 after'
    withClient (runningAddress (programsRunning programs)) $ \client -> do
      say client ("GET " <> path' <> " HTTP/1.1\r\nHost: test\r\n\r\n")
      void (eventually "the program to run" (doesFileExist file) id)
    -- It would run for half a minute. Loaded machines may take longer than 100 ms, but not that long.
    nothingRuns (programsCgi programs)
    removeFile file

deadline :: IO ()
deadline = withPrograms (\s -> s {cgiTime = milliseconds 300, cgiGrace = milliseconds 100}) $ \programs -> do
  get programs "/p/t?stubborn+hang" >>= (@?= 504) . answerCode
  nothingRuns (programsCgi programs)

bounded :: IO ()
bounded = withPrograms (\s -> s {cgiPrograms = 1, cgiQueue = 1, cgiWait = seconds 15}) $ \programs -> do
  let file = programsDirectory programs </> "reached"
      address = runningAddress (programsRunning programs)
  withClient address $ \first -> do
    say first ("GET /p/t?tell:" <> C.pack file <> "+hang HTTP/1.1\r\nHost: test\r\n\r\n")
    void (eventually "the program to run" (doesFileExist file) id)
    waiting <- forkTask (get programs "/p/t?type+hello")
    void (eventually "a request in the queue" (waitingPrograms (programsCgi programs)) (== 1))
    refused <- get programs "/p/t?type+hello"
    (answerCode refused, answerHeader refused "retry-after") @?= (503, Just "5")
    toldOf programs "as many requests as it may have"
    abort first
    -- Its program ends, and the one that waited has its turn.
    joinTask waiting >>= answersWith 200 "hello\n"

many :: IO ()
many = withPrograms (\s -> s {cgiPrograms = 8, cgiWait = seconds 60, cgiQueue = 1000}) $ \programs -> do
  tasks <- mapM (\i -> forkTask (mapM_ (\j -> one programs (i + j)) [1 .. 12 :: Int])) [1 .. 16 :: Int]
  mapM_ joinTask tasks
  where
    one programs n = case n `mod` 4 of
      0 -> get programs "/p/t?type+hello" >>= answersWith 200 "hello\n"
      1 -> get programs "/p/t?abort" >>= (@?= 502) . answerCode
      2 -> withClient (runningAddress (programsRunning programs)) $ \client -> say client "GET /p/t?hang HTTP/1.1\r\nHost: test\r\n\r\n"
      _ -> withClient (runningAddress (programsRunning programs)) $ \client -> ask client "POST" "/p/t?type+count" [] "12345" >>= answersWith 200 "5\n"

interruptions :: IO ()
interruptions = withPrograms (\s -> s {cgiPrograms = 4, cgiWait = seconds 60, cgiQueue = 1000, cgiGrace = milliseconds 100}) $ \programs -> withTestRuntime $ \runtime -> do
  gateway <- interrupted 6000 (cgiGateway (programsCgi programs))
  withGatewayServer runtime gateway $ \running -> do
    tasks <- forM [1 .. 8 :: Int] $ \_ -> forkTask . forM_ [1 .. 25 :: Int] $ \i ->
      withClient (runningAddress running) $ \client -> do
        say client (if even i then "POST /p/t?type+count HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello" else "GET /p/t?type+hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        void (hearRest client)
    mapM_ joinTask tasks
  nothingRuns (programsCgi programs)
  waitingPrograms (programsCgi programs) >>= (@?= 0)
  -- All slots are there.
  get programs "/p/t?type+hello" >>= answersWith 200 "hello\n"

gatewayEnds :: IO ()
gatewayEnds = withDirectory $ \directory -> do
  callProcess "gcc" ["-O1", "-o", directory </> "t", "test/programs/heddle_cgi.c"]
  let file = directory </> "reached"
  withTestRuntime $ \runtime -> do
    withCgi runtime (defaultCgiSettings (C.pack directory)) {cgiGrace = milliseconds 100} $ \cgi ->
      withGatewayServer runtime (cgiGateway cgi) $ \running ->
        withClient (runningAddress running) $ \client -> do
          say client ("GET /p/t?tell:" <> C.pack file <> "+close+stubborn+hang HTTP/1.1\r\nHost: test\r\n\r\n")
          void (eventually "the program to run" (doesFileExist file) id)
          hearAnswer client >>= (@?= 502) . answerCode
  noChildren

-- As many places in the queue as none: the slots are waited for all the same.
endsWithoutQueue :: IO ()
endsWithoutQueue = withDirectory $ \directory -> do
  callProcess "gcc" ["-O1", "-o", directory </> "t", "test/programs/heddle_cgi.c"]
  let file = directory </> "reached"
  withTestRuntime $ \runtime -> do
    withCgi runtime (defaultCgiSettings (C.pack directory)) {cgiGrace = milliseconds 300, cgiQueue = 0, cgiPrograms = 2} $ \cgi ->
      withGatewayServer runtime (cgiGateway cgi) $ \running ->
        withClient (runningAddress running) $ \client -> do
          say client ("GET /p/t?stubborn+tell:" <> C.pack file <> "+close+hang HTTP/1.1\r\nHost: test\r\n\r\n")
          void (eventually "the program to run" (doesFileExist file) id)
          hearAnswer client >>= (@?= 502) . answerCode
    -- At once: the end has waited.
    children >>= (@?= "")

slowUpload :: IO ()
slowUpload = withProgramsOn hurried id $ \programs -> do
  answer <- withClient (runningAddress (programsRunning programs)) $ \client -> do
    say client "POST /p/t?count+type HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nx"
    hearAnswer client
  answerCode answer @?= 408
  nothingRuns (programsCgi programs)
  toldOf programs "program /p/t was ended: request body came too slowly"
  -- The answer has begun: the connection ends.
  withClient (runningAddress (programsRunning programs)) $ \client -> do
    say client "POST /p/t?type+hello+flush+count HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nx"
    (begun, _) <- hearRest client
    assertBool (show begun) ("HTTP/1.1 200" `B.isPrefixOf` begun && not ("0\r\n\r\n" `B.isSuffixOf` begun) || "HTTP/1.1 408" `B.isPrefixOf` begun)
  nothingRuns (programsCgi programs)

faultyBodies :: IO ()
faultyBodies = withProgramsOn hurried id $ \programs -> do
  let posting body = withClient (runningAddress (programsRunning programs)) $ \client -> do
        say client ("POST /p/t?count+type HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n" <> body)
        answerCode <$> hearAnswer client
  posting "5\r\nhello\r\nzz\r\n" >>= (@?= 400)
  posting (C.concat (replicate 3 ("3e8\r\n" <> C.replicate 1000 'x' <> "\r\n")) <> "0\r\n\r\n") >>= (@?= 413)
  -- They are received before the program starts, and so it does not.
  toldLines (programsTold programs) >>= (@?= [])

hiddenDots :: IO ()
hiddenDots = withPrograms (\s -> s {cgiPath = cgiPath s <> "/t"}) $ \programs ->
  forM_ ["/p/..;/x", "/p/a/..;v=1/x", "/p/a/.;", "/p/%2e%2e;/x", "/p/..%3b/x"] $ \path -> get programs path >>= (@?= 400) . answerCode
