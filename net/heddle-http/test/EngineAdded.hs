{-# LANGUAGE OverloadedStrings #-}

-- | Headers that a handler gives a request, or the reply to it whatever that will be.
module EngineAdded (tests) where

import Control.Monad (forM_, replicateM, replicateM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (byteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toLower)
import Data.IORef
import Data.Maybe (fromMaybe)
import EngineFixture
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (castPtr, plusPtr)
import Heddle.Http
import Heddle.Http.Borrowed (Lines (..), noteForLog, noteUpstreamTime, notedForLog, requestHeadBytes, upstreamTime)
import Heddle.Http.HeadCopy (copiedHeader, copiedHeaders, copyHead)
import Heddle.IO (BackendChoice)
import Heddle.Prim.Clock (Nanos (..))
import Heddle.Testkit.HttpClient
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = onBothBackends "added headers" (\backend -> [ofRequests backend, ofReplies backend, upstream backend])

ofRequests :: BackendChoice -> TestTree
ofRequests backend =
  testGroup
    "of requests"
    [ testCase "one takes the place of all of its name; the others stay as they are, and known ones are found" $
        answering (\request -> setRequestHeader request "X-Request-Id" "new" >>= (@?= True)) $ \client -> do
          say client "GET / HTTP/1.1\r\nx-request-id: a\r\nAccept: b\r\nX-REQUEST-ID: c\r\nHost: h\r\nOther: d\r\n\r\n"
          heard client ["Accept=b", "Host=h", "Other=d", "X-Request-Id=new", "|h|new|b"],
      testCase "removed ones are gone, in any case" $
        answering (`removeRequestHeader` "OTHER") $ \client -> do
          say client "GET / HTTP/1.1\r\nother: 1\r\nHost: h\r\nX: 2\r\nOther: 3\r\n\r\n"
          heard client ["Host=h", "X=2", "|h|-|-"],
      testCase "the next request on the connection has only its own" $ do
        first <- newIORef True
        answering (\request -> readIORef first >>= \yes -> if yes then writeIORef first False >> setRequestHeader request "X-Request-Id" "one" >>= (@?= True) else pure ()) $ \client -> do
          say client (B.concat (replicate 2 "GET / HTTP/1.1\r\nHost: h\r\n\r\n"))
          heard client ["Host=h", "X-Request-Id=one", "|h|one|-"]
          heard client ["Host=h", "|h|-|-"],
      testCase "they stay when the head moves to make room for the body" $
        answering (\request -> setRequestHeader request "X-Request-Id" "moved" >>= (@?= True)) $ \client -> do
          -- The last head begins in the buffer's second half, so there is little room behind it.
          say client (B.concat (replicate before "GET / HTTP/1.1\r\nHost: first\r\n\r\n") <> "POST / HTTP/1.1\r\nHost: h\r\nAccept: b\r\nContent-Length: 60000\r\n\r\n" <> B.replicate 60000 0x61)
          replicateM_ before (heard client ["Host=first", "X-Request-Id=moved", "|first|moved|-"])
          heard client ["Host=h", "Accept=b", "Content-Length=60000", "X-Request-Id=moved", "|h|moved|b"],
      testCase "what has no room, or is no header, is refused, and the request is served" $
        answering
          ( \request -> do
              setRequestHeader request "A" (B.replicate 2000 0x61) >>= (@?= False)
              forM_ [("", "v"), ("A", "x\ny"), ("A\r", "v"), ("A", "\0")] $ \(name, value) -> setRequestHeader request name value >>= (@?= False)
              -- As many as there is room for.
              done <- replicateM 30 (setRequestHeader request "B" "0123456789012345678901234567890123456789")
              assertBool "some of them" (and (take 5 done) && not (last done))
          )
          $ \client -> do
            say client "GET / HTTP/1.1\r\nHost: h\r\nB: 1\r\n\r\n"
            heard client ["Host=h", "|h|-|-"]
    ]
  where
    before = 180
    answering :: (Request -> IO ()) -> (Client -> IO ()) -> IO ()
    answering change body = withEngine backend tight (seen change) $ \engine -> do
      withClient (engineAddress engine) body
      failuresAre engine []
    heard client expected = hearAnswer client >>= \a -> (answerCode a, C.lines (answerBody a)) @?= (200, expected)

-- Every header, then Host, X-Request-Id and Accept as well-known ones; a copy of the head says the same.
seen :: (Request -> IO ()) -> Handler
seen change request = do
  change request
  _ <- readWholeBody request 100000
  given <- headers request
  copy <- copyHead request
  copiedHeaders (C.pack . show) id copy `sameValues` given
  size <- requestHeadBytes request
  assertBool "the size covers all lines" (size >= sum [B.length n + B.length v | (n, v) <- given])
  known <- mapM (header request) [HeaderHost, HeaderXRequestId, HeaderAccept]
  map (`copiedHeader` copy) [HeaderHost, HeaderXRequestId, HeaderAccept] @?= known
  named <- headerNamed request "x-request-id"
  named @?= known !! 1
  pure (Whole status200 [] (C.unlines ([n <> "=" <> v | (n, v) <- given] ++ [C.concat (concat [["|", fromMaybe "-" k] | k <- known])])))
  where
    sameValues copied given = map snd copied @?= map snd given

-- Header lines as a gateway gives them.
linesOf :: [Header] -> Lines
linesOf fields =
  Lines
    { linesRoom = B.length text,
      linesDate = False,
      linesServer = False,
      linesWrite = \p -> unsafeUseAsCStringLen text (\(from, n) -> p `plusPtr` n <$ copyBytes p (castPtr from) n),
      linesHeaders = pure fields
    }
  where
    text = B.concat [part | Header name value <- fields, part <- [name, ": ", value, "\r\n"]]

ofReplies :: BackendChoice -> TestTree
ofReplies backend = testCase "whatever the reply is, once" $ do
  prebuilt <- newPrebuilt "heddle" status200 [Header "A" "b"] (ContentOf 2 (\_ -> pure ()))
  let replies :: [(ByteString, Request -> IO Reply)]
      replies =
        [ ("/ready", \_ -> pure (Ready prebuilt)),
          ("/whole", \_ -> pure (Whole status200 [Header "x-request-id" "its own"] "hi")),
          ("/copied", \_ -> pure (Copied status200 (linesOf [Header "x-request-id" "its own"]) "hi")),
          ("/segments", \_ -> pure (Segments status200 [] [SegmentBytes "hi"] (pure ()))),
          ("/stream", \_ -> pure (Stream status200 [] (`writerPut` "hi"))),
          ("/sized", \_ -> pure (StreamOf status200 [] 2 (`writerPut` "hi"))),
          ("/built", \_ -> pure (Built status200 [] (byteString "hi"))),
          ("/long", \_ -> pure (Built status200 [] (byteString (B.replicate 100000 0x61)))),
          ("/builtOf", \_ -> pure (BuiltOf status200 [] 2 (byteString "hi"))),
          ("/now", \request -> Replied status200 <$ replyNow request (Whole status200 [Header "X-Request-Id" "its own"] "hi")),
          ("/fails", \_ -> ioError (userError "on purpose"))
        ]
      handler request = do
        path <- rawPath request
        if path == "/none" then pure () else replyWithHeader request "X-Request-Id" "overwritten" >> replyWithHeader request "x-request-id" path
        maybe (pure (Whole status200 [] "")) ($ request) (lookup path replies)
  withEngine backend tight handler $ \engine -> do
    forM_ (map fst replies ++ ["/none", "/ready", "/none"]) $ \path ->
      withClient (engineAddress engine) $ \client -> do
        -- Alone, and gathered with the next one.
        say client (get path)
        hearAnswer client >>= same path
        say client (get path <> get "/none" <> get path)
        hearAnswer client >>= same path
        hearAnswer client >>= same "/none"
        hearAnswer client >>= same path
    failuresAre engine (replicate 3 "on purpose")
  where
    same path answer = [v | (n, v) <- answerHeaders answer, C.map toLower n == "x-request-id"] @?= [path | path /= "/none"]

upstream :: BackendChoice -> TestTree
upstream backend = testCase "the time of a server behind, and notes for logs, are their request's alone, beside added headers" $ do
  let handler request = do
        before <- (,) <$> upstreamTime request <*> notedForLog request "who"
        path <- rawPath request
        if path == "/asked"
          then do
            noteUpstreamTime request (Nanos 1)
            noteForLog request "who" "a"
            noteForLog request "else" "x"
            noteForLog request "who" "b"
            setRequestHeader request "A" "b" >>= (@?= True)
            replyWithHeader request "C" "d"
            noteUpstreamTime request (Nanos 5000000000)
          else pure ()
        after <- (,) <$> upstreamTime request <*> notedForLog request "who"
        size <- requestHeadBytes request
        given <- headers request
        pure (Whole status200 [] (C.pack (show (before, after, size, length given))))
  withEngine backend tight handler $ \engine -> do
    withClient (engineAddress engine) $ \client -> do
      say client (get "/asked" <> get "/other" <> get "/asked")
      forM_ [True, False, True] $ \asked -> do
        answer <- hearAnswer client
        let size = B.length (get (if asked then "/asked" else "/other"))
        answerBody answer @?= C.pack (if asked then show (none, (Just (Nanos 5000000000), Just ("a, b" :: ByteString)), size + 2, 2 :: Int) else show (none, none, size, 1 :: Int))
        [v | (n, v) <- answerHeaders answer, C.map toLower n == "c"] @?= ["d" | asked]
    failuresAre engine []
  where
    none = (Nothing, Nothing) :: (Maybe Nanos, Maybe ByteString)
