{-# LANGUAGE OverloadedStrings #-}

-- | Python's websockets (Debian's python3-websockets, so for Debian's Python) as a strict peer, in both directions.
module InteropTest (tests) where

import Control.Concurrent.MVar
import Control.Exception (bracket, try)
import Control.Monad (forM_)
import Data.ByteString qualified as B
import Data.Either (fromLeft)
import Data.Maybe (isJust)
import Fixture
import Heddle.IO (defaultConfig, withRuntime)
import Heddle.Testkit.Watchdog
import Heddle.WebSocket
import System.Exit (ExitCode (..))
import System.IO (hGetLine)
import System.Process
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "Python's websockets"
    [ testCase "its client and our server" $ do
        ended <- newEmptyMVar
        serving defaults {optionDeflate = Just (DeflateOptions 6 0), optionSubprotocols = ["chat"]} (`echo'` ended) $ \address -> do
          (code, out, err) <- patiently "Python to end" (readProcessWithExitCode "/usr/bin/python3" ["-c", clientProgram, "ws://" ++ show address ++ "/"] "")
          (code, out, err) @?= (ExitSuccess, "done\n", "")
        patiently "the session's end" (takeMVar ended) >>= (@?= PeerClosed (CloseCode 3333) "enough"),
      testCase "its server and our client" $
        bracket (createProcess (proc "/usr/bin/python3" ["-c", serverProgram]) {std_out = CreatePipe}) stop $ \(_, out, _, _) -> do
          port <- maybe (assertFailure "no output") (patiently "Python to listen" . hGetLine) out
          withRuntime defaultConfig $ \runtime ->
            forM_ [Just (DeflateOptions 6 0), Nothing] $ \deflate ->
              withWebSocket defaults {optionDeflate = deflate, optionSubprotocols = ["chat"]} runtime ("ws://127.0.0.1:" ++ port ++ "/") [] $ \conn -> do
                compresses conn @?= isJust deflate
                subprotocol conn @?= Just "chat"
                forM_ [0, 1, 125, 126, 65535, 65536, 300000] $ \n -> do
                  sendBinary conn (B.replicate n 9)
                  receive conn >>= (@?= BinaryMessage (B.replicate n 9))
                sendText conn "\954\972"
                receive conn >>= (@?= TextMessage "\954\972")
                sendTextPieces conn (\put -> mapM_ put ["in ", "pieces"])
                receive conn >>= (@?= TextMessage "in pieces")
                let parts = [B.replicate 600 120, "y", B.replicate 100000 121]
                sendBinaryPieces conn (`mapM_` parts)
                receive conn >>= (@?= BinaryMessage (B.concat parts))
                sendPing conn "ping"
    ]
  where
    echo' conn ended = do
      r <- tryEnd (echo conn)
      putMVar ended r
    tryEnd act = fromLeft Closed <$> try act
    stop = cleanupProcess

clientProgram, serverProgram :: String
clientProgram =
  unlines
    [ "import asyncio, sys, websockets",
      "async def main():",
      "    async with websockets.connect(sys.argv[1], subprotocols=['other', 'chat'], max_size=None) as ws:",
      "        assert ws.subprotocol == 'chat', ws.subprotocol",
      -- Since websockets 14 they are the protocol's.
      "        extensions = getattr(ws, 'extensions', None) or ws.protocol.extensions",
      "        assert [e.name for e in extensions] == ['permessage-deflate'], extensions",
      "        for n in [0, 1, 125, 126, 65535, 65536, 300000]:",
      "            await ws.send(b'x' * n)",
      "            assert await ws.recv() == b'x' * n",
      "            text = 'κόσμε' * n",
      "            if n < 100000:",
      "                await ws.send(text)",
      "                assert await ws.recv() == text",
      "        await ws.send(['in ', 'pieces'])",
      "        assert await ws.recv() == 'in pieces'",
      "        await (await ws.ping())",
      "        await ws.close(3333, 'enough')",
      "    print('done')",
      "asyncio.run(main())"
    ]
serverProgram =
  unlines
    [ "import asyncio, websockets",
      "async def echo(ws, path=None):",
      "    async for message in ws:",
      "        await ws.send(message)",
      "async def main():",
      "    async with websockets.serve(echo, '127.0.0.1', 0, subprotocols=['chat'], max_size=None) as server:",
      "        print(server.sockets[0].getsockname()[1], flush=True)",
      "        await asyncio.Future()",
      "asyncio.run(main())"
    ]
