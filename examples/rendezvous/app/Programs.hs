{-# LANGUAGE ExistentialQuantification #-}

-- |
-- Module      : Programs
-- Description : Options, input and answers of each program
-- Stability   : example
module Programs
  ( programs,
  )
where

import Control.Monad (forM_, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (hPutBuilder)
import Data.List (intercalate)
import Data.Maybe (fromMaybe, isJust)
import Data.Primitive.PrimArray (PrimArray, indexPrimArray, sizeofPrimArray)
import Data.Word (Word64)
import Heddle.Prim.Exception (IOException, try)
import Heddle.Prim.Thread (getProcessors, setCapabilities)
import Options.Applicative
import Rendezvous.Filter qualified as Filter
import Rendezvous.Histogram qualified as Histogram
import Rendezvous.Input (Result, complain, parseIntegers)
import Rendezvous.Maximum qualified as Maximum
import Rendezvous.Picture (Picture (..), drawn, parsePicture, renderPpm)
import Rendezvous.Pipeline (Flow (Flow))
import Rendezvous.Pipeline qualified as Pipeline
import Rendezvous.ProducerConsumer (Goods (Goods))
import Rendezvous.ProducerConsumer qualified as ProducerConsumer
import Rendezvous.Sat qualified as Sat
import Rendezvous.Sat.Dimacs
import Rendezvous.Sat.Formula (Answer (..), formulaOf, modelNumbers, satisfies)
import Rendezvous.Sat.Generate (Recipe (..), generate, paperSized)
import Rendezvous.Search qualified as Search
import Rendezvous.Sound (Kind (..), kindOf, parseSamples, renderSamples)
import Rendezvous.Ways
import System.Exit (ExitCode (..), exitWith)
import System.IO (IOMode (..), hPutStrLn, stderr, withBinaryFile)
import Text.Printf (printf)

-- | Names and parsers.
programs :: [(String, ParserInfo (IO ()))]
programs =
  [ program "producer-consumer" "Figure 4: one branch makes what another uses up" producerConsumer,
    program "pipeline" "Figure 5: stages between an input and an output" pipeline,
    program "maximum" "Figures 19 and 20: the greatest of 400,000 numbers, or of a file's" maximumOf,
    program "sat" "Figures 21 and 22: a formula of 600 variables and 2,500 clauses, or of a DIMACS file" sat,
    program "search" "Figures 23 and 24: a key in a list of 420,000 numbers, or of a file's" search,
    program "filter" "Figures 25 and 27: a filter over 50,000 samples, or a file's" filtering,
    program "histogram" "Figures 26 and 27: the shades in a picture of 565 KB, or a file's" histogram
  ]
  where
    program name what parser = (name, info parser (progDesc what <> failureCode 2))

-- * What all have in common

data Common = Common
  { commonCores :: !(Maybe Int),
    commonRounds :: !Int,
    -- Answers in a row.
    commonRepeat :: !Int,
    commonTimes :: !Bool,
    commonOnly :: ![String]
  }

-- Given how many answers in a row make a time that can be measured.
common :: Int -> Parser Common
common repeated =
  Common
    <$> optional (option (number 1 256) (long "cores" <> short 'N' <> metavar "N" <> help "Use so many cores (default: all, but no more than 16)"))
    <*> option (number 1 100000) (long "rounds" <> metavar "N" <> value 3 <> showDefault <> help "Let each way answer so many times, in turn; show medians")
    <*> option (number 1 100000000) (long "repeat" <> metavar "N" <> value repeated <> showDefault <> help "A time is the mean of so many answers in a row")
    <*> switch (long "times" <> help "Show nothing but a line 'WAY NANOSECONDS' for each way and round")
    <*> many (strOption (long "only" <> metavar "WAY" <> help "Leave out the other ways; may be given more than once"))

-- A program that is ready to run, given the number of cores.
data Ready = forall input answer.
  Eq answer =>
  Ready
  { readyInput :: input,
    readyWays :: [Way input answer],
    readyAnswer :: answer -> String,
    -- What is shown besides, and how to end.
    readyEpilogue :: answer -> IO ()
  }

perform :: String -> Common -> (Int -> IO Ready) -> IO ()
perform name options prepare = do
  cores <- maybe (min 16 <$> getProcessors) pure (commonCores options)
  setCapabilities cores
  Ready input ways answer epilogue <- prepare cores
  let wanted = [way | way <- ways, null (commonOnly options) || wayName way `elem` commonOnly options]
      unknown = [way | way <- commonOnly options, way `notElem` map wayName ways]
  forM_ unknown $ \way ->
    failing 2 name ("'" <> way <> "' is not a way of this program. There are: " <> intercalate ", " (map wayName ways))
  compete (commonRounds options) (commonRepeat options) wanted input >>= \case
    Left (one, other) -> failing 1 name (one <> " and " <> other <> " do not agree")
    Right (Contest result times)
      | commonTimes options ->
        forM_ (sequence' (map (\(way, list) -> map (\ns -> (way, ns)) list) times)) $ \(way, ns) -> putStrLn (way <> " " <> show ns)
      | otherwise -> putStrLn (report name (answer result) times) >> epilogue result
  where
    -- Round by round.
    sequence' lists = if any null lists then [] else map head lists <> sequence' (map tail lists)

failing :: Int -> String -> String -> IO a
failing code name what = do
  hPutStrLn stderr ("heddle-rendezvous-examples " <> name <> ": " <> what)
  exitWith (ExitFailure code)

-- A file's contents, as the parser has them.
reading :: String -> FilePath -> (ByteString -> Result a) -> IO a
reading name file parse =
  try (B.readFile file) >>= \case
    Left problem -> failing 2 name ("cannot read " <> show (problem :: IOException))
    Right bytes -> either (failing 2 name . complain file) pure (parse bytes)

writing :: String -> IO () -> IO ()
writing name act =
  try act >>= \case
    Left problem -> failing 2 name ("cannot write " <> show (problem :: IOException))
    Right () -> pure ()

number :: Int -> Int -> ReadM Int
number least most = eitherReader $ \word -> case reads word of
  [(n, "")] | toInteger least <= n, n <= toInteger most -> Right (fromInteger n)
  _ -> Left ("'" <> word <> "' is not a number from " <> show least <> " to " <> show most)

-- An option that is a number.
sized :: String -> Int -> Int -> Int -> String -> Parser Int
sized name least most start what = option (number least most) (long name <> metavar "N" <> value start <> showDefault <> help what)

largest :: Int
largest = 1000000000

seedOption :: Word64 -> Parser Word64
seedOption start = fromIntegral <$> sized "seed" 0 maxBound (fromIntegral start) "Another input is made from another seed"

fileArgument :: String -> Parser (Maybe FilePath)
fileArgument what = optional (strArgument (metavar "FILE" <> help what))

-- * The programs

producerConsumer :: Parser (IO ())
producerConsumer = run <$> common 1 <*> sized "size" 0 largest 2000 "So many items" <*> sized "work" 0 largest 40000 "Steps of work to make an item, and to use it up"
  where
    run options size work =
      perform "producer-consumer" options $ \_ ->
        pure (Ready (Goods size work) [Way "sequential" ProducerConsumer.sequential, Way "det" ProducerConsumer.det] show none)

pipeline :: Parser (IO ())
pipeline =
  run
    <$> common 1
    <*> sized "size" 0 largest 2000 "So many items"
    <*> sized "stages" 1 100000 2 "So many stages between input and output"
    <*> sized "work" 0 largest 40000 "Steps of work for an item in a stage"
    <*> switch (long "print" <> help "Do not measure; print each item as the output receives it")
  where
    run options size stages work printing
      | printing = do
        mapM_ setCapabilities (commonCores options)
        total <- Pipeline.detPrinting (Flow stages size work)
        putStrLn ("pipeline  result " <> show total)
      | otherwise =
        perform "pipeline" options $ \_ ->
          pure (Ready (Flow stages size work) [Way "sequential" Pipeline.sequential, Way "det" Pipeline.det] show none)

maximumOf :: Parser (IO ())
maximumOf =
  run
    <$> common 500
    <*> sized "size" 1 largest 400000 "So many numbers, if there is no FILE"
    <*> seedOption 19
    <*> optional (option (number 1 100000) (long "pieces" <> metavar "N" <> help "Cut the numbers into so many pieces (default: 4 for each core)"))
    <*> fileArgument "Whole numbers between white space"
  where
    run options size seed count file =
      perform "maximum" options $ \cores -> do
        array <- maybe (pure (Maximum.randomNumbers seed size)) (\name -> reading "maximum" name parseIntegers) file
        let n = fromMaybe (4 * cores) count
        pure (Ready array [Way "sequential" Maximum.sequential, Way "par/pseq" (Maximum.parPseq n), Way "det" (Maximum.det n)] show none)

sat :: Parser (IO ())
sat =
  run
    <$> common 1
    <*> optional (option (number 0 20) (long "depth" <> metavar "N" <> help "Try both values at the same time in so many decisions (default: 4 more than the cores ask for)"))
    <*> recipe
    <*> optional (strOption (long "write" <> metavar "OUT" <> help "Write the formula to a DIMACS file"))
    <*> fileArgument
      "A formula in DIMACS CNF. The answer is then a line 's' and lines 'v', with the times in a comment, and the \
      \exit code is 10 for satisfiable and 20 for unsatisfiable, as in SAT competitions"
  where
    recipe =
      Recipe
        <$> sized "variables" 6 1000000 (recipeVariables paperSized) "So many variables, if there is no FILE"
        <*> sized "clauses" 0 largest (recipeClauses paperSized) "So many clauses"
        <*> sized "core-variables" 3 1000000 (recipeCoreVariables paperSized) "So many of the variables in the part that has no model"
        <*> sized "core-clauses" 0 largest (recipeCoreClauses paperSized) "So many of the clauses there"
        <*> seedOption (recipeSeed paperSized)

    run options given how output file = do
      when (not (isJust file) && (recipeCoreVariables how + 3 > recipeVariables how || recipeCoreClauses how > recipeClauses how)) $
        failing 2 "sat" "the core needs fewer clauses than there are, and at least 3 variables fewer"
      Dimacs variables clauses <- maybe (pure (generate how)) (\name -> reading "sat" name parseDimacs) file
      forM_ output $ \name ->
        writing "sat" (withBinaryFile name WriteMode (`hPutBuilder` renderDimacs ["heddle-rendezvous-examples sat"] (Dimacs variables clauses)))
      perform (if isJust file then "c sat" else "sat") options $ \cores -> do
        let depth = fromMaybe (4 + length (takeWhile (< cores) (iterate (* 2) 1))) given
        pure
          Ready
            { readyInput = formulaOf variables clauses,
              readyWays =
                [ Way "sequential" Sat.sequential,
                  Way "par/pseq" (Sat.parPseq depth),
                  Way "det" (Sat.det depth),
                  Way "leftmost" (Sat.detLeftmost depth)
                ],
              readyAnswer = \case
                Satisfiable _ -> "satisfiable"
                Unsatisfiable -> "unsatisfiable",
              readyEpilogue = conclude (isJust file) clauses
            }

    conclude competing clauses answer = do
      case answer of
        Satisfiable model | not (satisfies model clauses) -> failing 1 "sat" "the model does not make every clause true"
        _ -> pure ()
      when competing $ case answer of
        Satisfiable model -> do
          putStrLn "s SATISFIABLE"
          mapM_ putStrLn (renderModel (modelNumbers model))
          exitWith (ExitFailure 10)
        Unsatisfiable -> do
          putStrLn "s UNSATISFIABLE"
          exitWith (ExitFailure 20)

search :: Parser (IO ())
search =
  run
    <$> common 1
    <*> sized "size" 1 largest 420000 "So many numbers, if there is no FILE"
    <*> sized "place" 0 largest 390000 "The place of the key, counted from 0, if there is no FILE"
    <*> sized "interval" 1 largest 1000 "The threads meet when each has looked at so many numbers; the tasks of leftmost are as large"
    <*> optional (option (number 1 10000) (long "threads" <> metavar "N" <> help "So many threads meet (default: the cores)"))
    <*> sized "work" 0 largest 300 "Steps of work to compare a number with the key"
    <*> seedOption 23
    <*> fileArgument "Whole numbers between white space; --key is needed, too"
    <*> optional (option (number minBound maxBound) (long "key" <> metavar "N" <> help "The number to look for in FILE"))
  where
    run options size place interval threads work seed file key =
      perform "search" options $ \cores -> do
        (wanted, list) <- case (file, key) of
          (Just name, Just k) -> (,) k <$> reading "search" name parseIntegers
          (Just _, Nothing) -> failing 2 "search" "which number is to be found in the file? Say --key N"
          (Nothing, Just _) -> failing 2 "search" "--key is for a FILE; without one, --place says where the key is put"
          (Nothing, Nothing)
            | place < size -> pure (Search.planted seed size place)
            | otherwise -> failing 2 "search" ("place " <> show place <> " is beyond the list, whose last place is " <> show (size - 1))
        pure
          Ready
            { readyInput = Search.searchFor work wanted list,
              readyWays =
                [ Way "sequential" Search.sequential,
                  Way "rendezvous" (Search.detRendezvous (fromMaybe cores threads) interval),
                  Way "leftmost" (Search.detLeftmost interval)
                ],
              readyAnswer = maybe "not found" show,
              readyEpilogue = none
            }

filtering :: Parser (IO ())
filtering =
  run
    <$> common 4
    <*> sized "size" 1 largest 50000 "So many samples, if there is no FILE"
    <*> sized "taps" 1 1000000 1024 "So many coefficients"
    <*> sized "job" 1 largest 500 "A job is so many samples"
    <*> workers
    <*> optional (strOption (long "output" <> short 'o' <> metavar "OUT" <> help "Write what comes out, in the kind of file that FILE is"))
    <*> fileArgument "Samples: a .wav, raw 16-bit samples (.raw, .pcm, .s16), or numbers between white space"
  where
    run options size taps job crew output file =
      perform "filter" options $ \cores -> do
        (kind, samples) <- case file of
          Nothing -> pure (maybe Numbers kindOf output, Filter.signal size)
          Just name -> reading "filter" name (parseSamples (kindOf name))
        pure
          Ready
            { readyInput = Filter.filterOf (Filter.lowPass taps) samples,
              readyWays = [Way "sequential" Filter.sequential, Way "det" (Filter.det (fromMaybe (4 * cores) crew) job)],
              readyAnswer = \result -> printf "level %.6f of %d samples" (Filter.level result) (sizeofPrimArray result),
              readyEpilogue = \result ->
                forM_ output $ \name ->
                  writing "filter" (withBinaryFile name WriteMode (`hPutBuilder` renderSamples kind result))
            }

histogram :: Parser (IO ())
histogram =
  run
    <$> common 100
    <*> sized "size" 1 1000000 1 "Count the picture so many times over"
    <*> sized "job" 1 largest 48000 "A job is so many pixels"
    <*> workers
    <*> switch (long "table" <> help "Show how often each shade occurs: shade, red, green, blue")
    <*> optional (strOption (long "write" <> metavar "OUT" <> help "Write the picture to a binary PPM"))
    <*> fileArgument "A picture: PPM, PGM, PNG, JPEG, BMP, GIF or TIFF"
  where
    run options times job crew table output file =
      perform "histogram" options $ \cores -> do
        picture <- maybe (pure (drawn 434 434)) (\name -> reading "histogram" name parsePicture) file
        forM_ output $ \name -> writing "histogram" (B.writeFile name (renderPpm picture))
        pure
          Ready
            { readyInput = Histogram.Shades (Histogram.pixelsOf (picturePixels picture)) times,
              readyWays = [Way "sequential" Histogram.sequential, Way "det" (Histogram.det (fromMaybe (4 * cores) crew) job)],
              readyAnswer = \counts ->
                let means = Histogram.channelMeans counts
                 in printf "%d by %d pixels, mean red %.1f green %.1f blue %.1f" (pictureWidth picture) (pictureHeight picture) (head means) (means !! 1) (means !! 2),
              readyEpilogue = when table . tabulate
            }

tabulate :: PrimArray Int -> IO ()
tabulate counts = forM_ [0 .. 255] $ \shade ->
  putStrLn (unwords (map show [shade, indexPrimArray counts shade, indexPrimArray counts (256 + shade), indexPrimArray counts (512 + shade)]))

workers :: Parser (Maybe Int)
workers = optional (option (number 1 10000) (long "workers" <> metavar "N" <> help "So many workers (default: 4 for each core)"))

none :: answer -> IO ()
none _ = pure ()
