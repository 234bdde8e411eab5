"""What `--help` prints: one screen for the program, one for each command."""

from __future__ import annotations

PROGRAM = """\
yolo-ckpt: train Ultralytics YOLO at full resolution in less memory

  train ARGS [ckpt=...]      train; ARGS are what `yolo train` takes
  plan model= imgsz= batch=  the plan per stage, and its forecast peak
  fit model= gpu=            the largest batch and image that fit
  verify model= imgsz=       prove here that the plan changes no bit
  bench model= imgsz= batch= stock, plans and other methods side by side
  check data=                what training would do with a data set
  convert src= dst=          DICOM, TIFF, PNG, labels to a YOLO data set
  sample NAME dir=           aerial, medical or industrial data to try it on
  enable | disable | status  flags for the plain `yolo` command, here

flags (train, plan, verify, bench):
  ckpt=off|selective|full|auto|PLAN.json  what to recompute (default auto)
  ckpt_stages=all|backbone|neck|head|0-8|0,2,4|C3k2
  ckpt_budget=22GiB|75%                   what auto may use (90% of the GPU)
  ckpt_attention=auto|stock|fused         fused kernels: where large (auto)
  ckpt_augment=none|aerial|medical|industrial  how images are varied (train)

`yolo-ckpt COMMAND --help` tells more. Example:
  yolo-ckpt train model=yolo26m.yaml data=my.yaml imgsz=2048 ckpt=auto
"""

COMMANDS = {
    "train": """\
yolo-ckpt train ARGS [ckpt=...] [ckpt_stages=...]

Trains as `yolo train ARGS` does, with a plan on the model: the same losses,
weights and files, in less memory. ckpt_plan.json and ckpt_report.* lie in the
run folder afterwards. Flags may stand in the file that cfg= names; files for
aerial, medical and industrial images on cards of 8, 12, 24, 48 and 80 GB come
with the package (cfg=aerial-24gb.yaml).
imgsz=native is the longest side in the data set, imgsz=max the largest that
fits. ckpt_augment= varies images as aerial, medical or industrial ones vary.

  yolo-ckpt train model=yolo26m.pt data=my.yaml imgsz=2048 ckpt=full
  yolo-ckpt train resume model=runs/detect/train/weights/last.pt
  yolo-ckpt train ... ckpt=full ckpt_stages=backbone
  yolo-ckpt train ... ckpt=runs/detect/train/ckpt_plan.json
""",
    "plan": """\
yolo-ckpt plan model= [imgsz=640] [batch=1] [gpu=rtx4090|22GiB] [ckpt=...]
               [ckpt_budget=...] [amp=fp32|fp16|bf16] [objects=30]
               [data=DATA.yaml, for imgsz=native]
               [plot=FILE.png] [format=table|json]

Shows what is done with each stage, and the peak memory of a training step
with its loss, with and without the plan. All is simulated: no GPU and no
memory needed. With a GPU or a budget, ckpt=auto is the plan that adds the
least time within it; gpu= implies amp=fp16. objects= are those in an image.

  yolo-ckpt plan model=yolo26x.yaml imgsz=2048 batch=2 gpu=rtx3060
""",
    "fit": """\
yolo-ckpt fit model= gpu=rtx4090|22GiB|cloud [amp=fp32|fp16|bf16]
              [objects=30] [ckpt_budget=80%] [format=table|json]

The largest batch at each size for stock, selective and full, and the largest
image at batch 1. All is simulated: no GPU and no memory needed.

With gpu=cloud: what fits stock on every GPU type of managed cloud training,
and the `ul cloud train` line for the cheapest one that fits imgsz= and batch=
(data= and epochs= go into that line).

  yolo-ckpt fit model=yolo26x.yaml gpu=l4
  yolo-ckpt fit model=yolo26m.pt gpu=cloud imgsz=1536 batch=8 data=my.yaml
""",
    "verify": """\
yolo-ckpt verify model= [imgsz=320] [batch=2] [device=cpu] [ckpt=...]
                 [format=table|json]

Runs two training steps with and without the plan and compares every output,
gradient, buffer and random state bit for bit. Exit status 1 on a difference.

  yolo-ckpt verify model=yolo26m.yaml imgsz=640 ckpt=full device=0
""",
    "bench": """\
yolo-ckpt bench model= [imgsz=640] [batch=2] [device=cpu] [amp=fp32|fp16|bf16]
                [objects=30] [rounds=5] [ways=...] [format=table|json]

One training step with its loss: stock, selective, full, auto, and what PyTorch
offers, side by side: peak memory, time, and whether the bits are the same.
ways=selective,full,auto,torch.utils.checkpoint,save_on_cpu,torch.compile picks
some of them; torch.compile takes minutes to compile. auto plans for
ckpt_budget=, or for half of stock's peak.

  yolo-ckpt bench model=yolo26m.yaml imgsz=1280 device=0 amp=fp16
""",
    "check": """\
yolo-ckpt check data= [imgsz=native] [batch=16] [workers=8] [cache=ram|disk]
                [task=detect|segment|obb|pose] [full=False] [plot=FILE.png]
                [findings=few|all] [format=table|json]

Reads every image's header and every label file and says what training would
make of them: which files stop it, which it drops, rewrites or reads wrongly,
each with the reason and what to do. Then numbers: objects in pixels at 640
and at imgsz= (native: the largest side), objects in an image, what rect=True
would save, and the host memory of workers, cache and mosaic. plot= draws the
sizes. Nothing is changed or downloaded. What a header leaves in doubt is
decoded; full=True decodes every image. Exit status 1 when training would fail
or lose data.

  yolo-ckpt check data=my.yaml plot=sizes.png
  yolo-ckpt check data=my.yaml imgsz=1280 cache=ram format=json
""",
    "convert": """\
yolo-ckpt convert src= dst= [task=detect|segment|obb] [labels=PATH|none]
                  [format_in=coco|voc|dota|mask|yolo] [...] [format=json]

Images under src= and their labels to a YOLO data set in dst=, a new folder.
Nothing in src= is changed; a file that fails is listed (exit status 1).

labels     found beside the images; mask=instance|semantic says what values
           of masks are; classes=a,b picks and orders, classes=100:a,200:b
           names values; difficult=keep|drop. VOC boxes are edges in pixels
window     header|percentile|full, or CENTER,WIDTH for DICOM and LOW,HIGH for
           16-bit and float images; percentile=0.5,99.5. By default DICOM
           takes its header's; the pages of a file share one. 8-bit images
           stay as they are
bands      bands=4,3,2 makes these red, green and blue; bands=all keeps all
tile       tile=1024 overlap=0.2 min_visible=0.3 cuts images and labels
output     PNG, or jpeg=95; names=keep|number. DICOM files get numbers, and
           convert_report.json has the SHA-256 of each in its name's place
split      train and val folders, or val=0.2 seed=0, together what is of one
           group=patient|study|series|image
workers=N  processes (as many as there are cores, up to 8)

No tags, EXIF or texts of the sources go into dst=.

  yolo-ckpt convert src=ct dst=data/ct task=segment labels=masks
""",
    "sample": """\
yolo-ckpt sample aerial|medical|industrial dir=FOLDER

Writes a small data set into FOLDER, with a note on where it comes from.

  aerial      photographs with labelled trees, up to 2472 px (20 MB from PyPI)
  medical     cell nuclei with their outlines, 512 px; the 16-bit originals
              and DICOM files beside them (6 MB from PyPI)
  industrial  MADE pictures, no real ones, in two sets with a data.yaml each:
              boards/ (3000 x 2200, faults of 20 px) and strips/ (4096 x 256,
              long scratches); drawn here in about 15 s, nothing is fetched

  yolo-ckpt sample medical dir=data/nuclei
  yolo-ckpt train model=yolo26n-seg.yaml data=data/nuclei/data.yaml imgsz=512
""",
    "enable": """\
yolo-ckpt enable

Makes `yolo train ... ckpt=full` work in this Python environment, by a
start-up file that waits until ultralytics is imported. YOLO_CKPT="ckpt=full"
in the environment plans every training of a process.
""",
    "disable": """\
yolo-ckpt disable

Removes what `yolo-ckpt enable` put into this Python environment.
""",
    "status": """\
yolo-ckpt status [format=table|json]

Tells whether the plain `yolo` command knows the flags, in which environment,
and the versions of what is installed.
""",
}
