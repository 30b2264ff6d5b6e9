-- |
-- Module      : ControllerCommand
-- Description : heddle controller
--
-- Options, log and status line of the OpenFlow controller.
module ControllerCommand
  ( controllerCommand,
  )
where

import Control.Monad (join, unless)
import Data.ByteString.Char8 qualified as C
import Data.IntMap.Strict qualified as IntMap
import Heddle.Http qualified as Http
import Heddle.IO (ListenOptions (..), Runtime, Spread (..), defaultListenOptions, listenerAddress, withListener, withRuntime)
import Heddle.IO qualified as IO
import Heddle.OpenFlow.Controller hiding (request)
import Heddle.OpenFlow.Hosts (Hosts, newHosts)
import Heddle.OpenFlow.Learning
import Heddle.OpenFlow.Northbound
import Heddle.OpenFlow.Topology
import Heddle.Prim.Atomic (fetchAdd, modifyRef, newRef, newWords, readRef)
import Heddle.Prim.Clock
import Heddle.Prim.Exception (IOException, displayException, finally, try)
import Heddle.Prim.Message (putErrorLine)
import Heddle.Prim.Thread (getCapabilities, getProcessors, labelMe, setCapabilities)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)
import Heddle.Scope qualified as Scope
import Heddle.Serve (ListenPlace (..), ListenSpec (..), Protocol (..), parseListen, renderListen)
import Heddle.Serve.Signal (ignoreSignal, onSignals, sigINT, sigPIPE, sigTERM)
import Heddle.Timer (sleepFor)
import Heddle.Tls (defaultTlsConfig, loadSite, newTlsListener, pemFiles, selfSignedPair, tlsOpening)
import Network.Socket (SockAddr)
import Options.Applicative
import Resolving (resolveHost)
import System.Exit (ExitCode (..), exitWith)
import System.IO (BufferMode (..), hFlush, hIsTerminalDevice, hPutStr, hSetBuffering, stderr, stdout)
import System.Posix.Process (exitImmediately)

data App = LearningApp | HubApp | TopologyApp
  deriving stock (Eq)

data Options = Options
  { optionListen :: !ListenSpec,
    optionApp :: !App,
    optionTls :: ![(FilePath, FilePath)],
    optionSelfSigned :: !Bool,
    optionCores :: !(Maybe Int),
    optionIdle :: !Int,
    optionHosts :: !Int,
    optionHttp :: !(Maybe ListenSpec),
    optionQuiet :: !Bool
  }

-- | The sub-command's options and action.
controllerCommand :: ParserInfo (IO ())
controllerCommand =
  info
    (run <$> options)
    ( fullDesc
        <> progDesc "Control OpenFlow switches (1.0 and 1.3)"
        <> footer
          "Connect Open vSwitch with: ovs-vsctl set-controller BRIDGE tcp:127.0.0.1:6653 (ssl: with TLS). SIGTERM and SIGINT \
          \(Ctrl-C) close all connections and end; switches keep their flows. Exit codes: 0 after a signal, 2 when it could \
          \not begin."
        <> failureCode 2
    )

options :: Parser Options
options =
  Options
    <$> option
      (eitherReader parseListen)
      (long "listen" <> short 'l' <> metavar "ADDR:PORT" <> value standard <> showDefaultWith renderListen <> help "Listen here for switches; :PORT for every address")
    <*> option
      (eitherReader application)
      (long "app" <> metavar "learning|hub|topology" <> completeWith ["learning", "hub", "topology"] <> value LearningApp <> showDefaultWith (const "learning") <> help "What it does: a learning switch for each switch by itself; a hub; a learning switch for the whole network, which finds links and floods without loops")
    <*> many
      ( (,)
          <$> strOption (long "tls-cert" <> metavar "FILE" <> action "file" <> help "Certificate, then its issuers' (PEM): speak TLS")
          <*> strOption (long "tls-key" <> metavar "FILE" <> action "file" <> help "Private key (PEM) of the --tls-cert before it")
      )
    <*> switch (long "tls-self-signed" <> help "Speak TLS with a certificate made at start, for development")
    <*> optional (option (positive 256 "a number of cores") (long "cores" <> short 'N' <> metavar "N" <> help "How many cores to use (default: all)"))
    <*> option (positive 65535 "a number of seconds") (long "idle" <> metavar "SECONDS" <> value 60 <> showDefault <> help "A flow without packets ends after this time")
    <*> option (positive 100000000 "a number of hosts") (long "max-hosts" <> metavar "N" <> value 65536 <> showDefault <> help "Hosts in a table: each switch's, or with --app topology the network's")
    <*> optional (option (eitherReader parseListen) (long "http" <> metavar "ADDR:PORT" <> help "Answer HTTP here: /metrics (Prometheus), /stats/switches, /stats/desc/N, /stats/flow/N, /stats/port/N (JSON)"))
    <*> switch (long "quiet" <> short 'q' <> help "Log nothing, show no status line")
  where
    standard = ListenSpec Http (ListenHost "127.0.0.1" 6653)
    application = \case
      "learning" -> Right LearningApp
      "hub" -> Right HubApp
      "topology" -> Right TopologyApp
      other -> Left ("'" ++ other ++ "' is not an application; there are learning, hub and topology")

positive :: Int -> String -> ReadM Int
positive most what = eitherReader $ \text -> case reads text of
  [(n, "")] | n > 0 && n <= most -> Right n
  _ -> Left ("'" ++ text ++ "' is not " ++ what ++ " (1 to " ++ show most ++ ")")

refuse :: String -> IO a
refuse why = putErrorLine ("heddle controller: " ++ why) >> exitWith (ExitFailure 2)

run :: Options -> IO ()
run chosen = do
  labelMe "heddle/controller"
  cores <- maybe getProcessors pure (optionCores chosen)
  now <- getCapabilities
  unless (cores == now) (setCapabilities cores)
  address <- resolved (optionListen chosen)
  http <- traverse resolved (optionHttp chosen)
  opening <- tls
  hSetBuffering stdout LineBuffering
  terminal <- hIsTerminalDevice stderr
  logsThere <- hIsTerminalDevice stdout
  stop <- newWaitCell
  stops <- newWords 1
  let -- A second signal ends the process at once.
      onStop = fetchAdd stops 0 1 >>= \before -> if before == 0 then unpark stop else exitImmediately (ExitFailure 1)
      config =
        defaultConfig
          { configAddress = address,
            configTls = opening,
            configTell = \event -> unless (optionQuiet chosen) $ do
              -- In one write: another stream's would come before or after it.
              putStrLn ((if terminal && logsThere then "\r\ESC[K" else "") ++ renderEvent event)
          }
  ignoreSignal sigPIPE
  onSignals [(signal, onStop) | signal <- [sigTERM, sigINT]]
  result <- try $
    withRuntime IO.defaultConfig $ \runtime ->
      withApp chosen $ \handlers tables ->
        withController runtime config handlers $ \controller -> ageing controller tables $ do
          unless (optionQuiet chosen) $
            putStrLn ("Listening for OpenFlow switches on " ++ show (controllerAddress controller) ++ (if cores == 1 then " (1 core" else " (" ++ show cores ++ " cores") ++ "; Ctrl-C stops)") >> hFlush stdout
          withHttp runtime controller http $
            Scope.withScopeNamed "heddle/controller" $ \scope -> do
              status <- if terminal && not (optionQuiet chosen) then Just <$> Scope.fork scope (statusLine controller) else pure Nothing
              park stop `finally` mapM_ Scope.cancel status
  case result of
    Right () -> unless (optionQuiet chosen) (putStrLn "Stopped.")
    Left (e :: IOException) -> refuse (displayException e ++ "\n  Is another controller running there? Choose another address with --listen.")
  where
    resolved spec = resolveHost (listenPlace spec) >>= either refuse pure
    tls
      | optionSelfSigned chosen = selfSignedPair ["localhost", "127.0.0.1"] >>= loaded . pure
      | null (optionTls chosen) = pure Nothing
      | otherwise = loaded [pemFiles c k | (c, k) <- optionTls chosen]
    loaded pairs =
      loadSite (defaultTlsConfig pairs) >>= \case
        Left problems -> refuse (unlines (map displayException problems))
        Right site -> Just . tlsOpening <$> newTlsListener site

-- The handlers of the application that was chosen, and its tables of hosts.
withApp :: Options -> ((Controller -> Switch -> IO Handlers) -> IO [Hosts] -> IO a) -> IO a
withApp chosen body = case optionApp chosen of
  HubApp -> body hub (pure [])
  LearningApp -> do
    -- A table for each number of a switch, which keeps its size when another switch gets the number.
    tables <- newRef IntMap.empty
    let tableOf s = do
          let number = infoNumber (switchInfo s)
          readRef tables >>= maybe (newTableOf number) pure . IntMap.lookup number
        newTableOf number = do
          table <- newHosts 16 (optionHosts chosen)
          table <$ modifyRef tables (\m -> (IntMap.insert number table m, ()))
    body
      (\controller s -> newWords 8 >>= \counts -> learningSwitch settings {learnHosts = tableOf} counts controller s)
      (IntMap.elems <$> readRef tables)
  TopologyApp -> do
    hosts <- newHosts (optionHosts chosen) (optionHosts chosen)
    withTopology defaultTopology {topologyIdle = idle} hosts $ \topology -> Scope.withScopeNamed "openflow/topology" $ \scope ->
      body
        (\controller s -> newWords 8 >>= \counts -> topologySwitch topology scope counts controller s)
        (pure [hosts])
  where
    settings = defaultLearning {learnIdle = idle}
    idle = fromIntegral (optionIdle chosen)

-- Forget hosts that have sent nothing for half an hour, while the action runs.
ageing :: Controller -> IO [Hosts] -> IO a -> IO a
ageing controller tables act = Scope.withTask (labelMe "openflow/ageing" >> from 1) (const act)
  where
    from minute = do
      sleepFor (seconds 60)
      join (ageHosts 30 minute <$> tables <*> switches controller)
      from (minute + 1)

withHttp :: Runtime -> Controller -> Maybe SockAddr -> IO a -> IO a
withHttp _ _ Nothing body = body
withHttp runtime controller (Just address) body =
  withListener runtime defaultListenOptions {listenSpread = OneAcceptor} address $ \listener -> do
    putStrLn ("Answering HTTP on " ++ show (listenerAddress listener))
    Http.withServer runtime Http.defaultSettings (\_ -> pure (handler, Nothing)) [listener] (const body)
  where
    handler request = do
      path <- Http.target request
      answer <- northbound controller (C.takeWhile (/= '?') path)
      pure $ case answer of
        Found kind content -> Http.Whole Http.status200 [Http.Header (C.pack "Content-Type") kind] content
        NotFound -> Http.Whole Http.status404 [] (C.pack "there is nothing here\n")
        NoReply why -> Http.Whole Http.status502 [] (why <> C.pack "\n")

-- One line, rewritten each second.
statusLine :: Controller -> IO ()
statusLine controller = controllerCounts controller >>= go
  where
    go before = do
      from <- monotonicNow
      sleepFor (seconds 1)
      to <- monotonicNow
      now <- controllerCounts controller
      found <- switches controller
      let rate = fromIntegral (countPacketIns now - countPacketIns before) * 1e9 / fromIntegral (nanosCount (elapsed from to)) :: Double
      hPutStr stderr ("\r\ESC[K" ++ show (length found) ++ (if length found == 1 then " switch, " else " switches, ") ++ show (round rate :: Int) ++ " packet-ins/s, " ++ show (countPacketIns now) ++ " in all")
      hFlush stderr
      go now
